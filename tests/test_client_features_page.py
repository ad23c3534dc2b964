"""The table "Client features" is what its registry makes; its tests are there, and run with what their column says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.client_features import FEATURES, PAGE, Feature, made_table, split_page
from tests.collected_tests import CollectedTest, collect
from tests.interop.conftest import JAVA_BROKER
from tests.public_name import find_public_name

FOREIGN = {"java", "go", "node", "cpp"}
OF_JAVA_BROKERS = {"java_cluster", "guarded_java"}
"""Fixtures that are a Java broker."""

COUNTS = {"P": 18, "T": 7, "Q": 4, "C": 27}


def test_the_table_is_what_the_registry_makes() -> None:
    _, table, _ = split_page(PAGE.read_text())
    assert table == made_table(), "python -m tests.client_features rewrites it"


def test_every_feature_has_its_row() -> None:
    codes = [f"{letter}{number:02}" for letter, count in COUNTS.items() for number in range(1, count + 1)]
    assert [each.code for each in FEATURES] == codes


@pytest.mark.parametrize("feature", FEATURES, ids=lambda each: each.code)
def test_our_names_are_there_and_what_is_not_there_has_its_reason(feature: Feature) -> None:
    for name in feature.ours:
        find_public_name(name)
    assert feature.alone
    assert (feature.java and feature.go and feature.java_broker) or feature.absent


@pytest.fixture(scope="module")
def collected() -> Mapping[str, CollectedTest]:
    """What pytest collects of the files that the table names, by their path below this folder."""
    names = [name for each in FEATURES for name in (*each.alone, *each.java, *each.go, *each.java_broker)]
    found = collect({"tests/" + name.partition("::")[0] for name in names})
    return {name.removeprefix("tests/"): each for name, each in found.items()}


def test_every_test_is_there_and_runs_with_what_its_column_says(collected: Mapping[str, CollectedTest]) -> None:
    for each in FEATURES:
        for name in each.alone:
            assert not FOREIGN & collected[name].marks, f"{each.code}: {name} is not alone"
        for name in each.java:
            assert "java" in collected[name].marks, f"{each.code}: {name} does not need Java"
            assert not name.startswith("client/"), name
        for name in each.go:
            assert "go" in collected[name].marks, f"{each.code}: {name} does not need Go"
        for name in each.java_broker:
            assert runs_with_java_broker(collected[name]), f"{each.code}: {name} does not run with Java's broker"


def runs_with_java_broker(test: CollectedTest) -> bool:
    """Return whether a case of a test has Java's broker each time, not only as the target."""
    return any(JAVA_BROKER in each for each in test.parameters) or bool(OF_JAVA_BROKERS & test.fixtures)

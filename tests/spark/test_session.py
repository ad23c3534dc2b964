"""The local session: what is said about a missing or old Java."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.errors import StartError
from rocketpy.spark.session import check_java, check_java_version


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx\nopenjdk version "21" 2023-09-19', 21),
    ],
)
def test_the_major_version_is_read(text: str, major: int) -> None:
    assert check_java_version(text, "") == major


@pytest.mark.parametrize("text", ['java version "1.8.0_402"', 'openjdk version "11.0.22"', "no such thing", ""])
def test_an_old_or_strange_java_is_refused_with_what_it_printed(text: str) -> None:
    with pytest.raises(StartError, match="needs 17") as caught:
        check_java_version(text, "needs 17")
    assert text in str(caught.value)


def test_no_java_at_all_names_the_version_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartError, match=r"version 17 or later .*found none on the PATH"):
        check_java()


def test_a_java_home_without_java_is_not_replaced_by_another_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StartError, match="JAVA_HOME"):
        check_java()

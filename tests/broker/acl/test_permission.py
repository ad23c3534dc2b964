"""Permission texts and bits, as Java reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.permission import (
    ANY,
    DENY,
    PUB,
    SUB,
    check_permission,
    check_resource_permissions,
    parse_permission,
)

VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "vectors.json").read_text())["acl_permission_text"]


@pytest.mark.parametrize("vector", [each for each in VECTORS if "perm" in each])
def test_texts_mean_what_they_mean_in_java(vector: dict[str, object]) -> None:
    text = vector["text"]
    assert parse_permission(None if text is None else str(text)) == vector["perm"]


@pytest.mark.parametrize("vector", [each for each in VECTORS if "check" in each])
def test_resources_are_checked_in_javas_words(vector: dict[str, object]) -> None:
    wanted = vector["check"]
    if wanted == "ok":
        check_resource_permissions([str(vector["resource"])])
        return
    assert isinstance(wanted, dict)
    with pytest.raises(AclError) as failure:
        check_resource_permissions(["T=PUB", str(vector["resource"])])
    assert str(failure.value) == wanted["message"]


def test_nothing_to_check_is_fine() -> None:
    check_resource_permissions(None)
    check_resource_permissions([])


@pytest.mark.parametrize(
    ("needed", "owned", "is_allowed"),
    [
        (PUB, PUB, True),
        (PUB, SUB, False),
        (SUB, PUB | SUB, True),
        (PUB, DENY, False),
        (PUB, DENY | PUB, False),
        (ANY, PUB, True),
        (ANY, SUB, True),
        (ANY, 0, False),
    ],
)
def test_deny_wins_and_any_is_one_of_both(needed: int, owned: int, is_allowed: bool) -> None:
    assert check_permission(needed, owned) is is_allowed

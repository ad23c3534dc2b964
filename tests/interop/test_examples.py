"""The programs of ``docs/examples`` against Java's nameserver and broker: they print what they print against ours.

``acl.py`` is in ``test_acl.py`` as well, whose broker has accounts.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.example_programs import PRINTED, run_example
from tests.interop.cluster import Cluster

pytestmark = pytest.mark.java


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_says(java_cluster: Cluster, tmp_path: Path, name: str) -> None:
    printed = run_example(name, java_cluster.namesrv, home=tmp_path)
    assert re.fullmatch(PRINTED[name], printed), printed


def test_pull_goes_on_where_it_has_ended(java_cluster: Cluster, tmp_path: Path) -> None:
    run_example("simple", java_cluster.namesrv, home=tmp_path)
    java_cluster.wait_route("Simple")
    *lines, last = run_example("pull", java_cluster.namesrv, "Simple", home=tmp_path).splitlines()
    assert len(lines) >= 10
    assert last == f"{len(lines)} messages"
    assert all(re.fullmatch(r"\d+ \d+ (message \d|stored or not|one more)", line) for line in lines), lines

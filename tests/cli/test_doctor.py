"""``rocketpy doctor`` as a program: its lines, its JSON, its exit status."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import run
from tests.client.real_cluster import open_real_cluster


async def test_a_cluster_that_is_well_is_status_0(tmp_path: Path) -> None:
    async with open_real_cluster(tmp_path) as cluster:
        ended = await run("doctor", "-n", cluster.address)
        shown = await run("doctor", "--json", NAMESRV_ADDR=cluster.address)
    fields = json.loads(shown.output)
    is_full = any(each["check"] == "disk-full" for each in fields["findings"])  # this machine's disk is no fake
    assert (ended.status, ended.errors, shown.status) == (int(is_full), "", int(is_full))
    assert ended.lines[-1].startswith("1 broker, 0 groups: 0 problems, ") or is_full
    assert any(line.startswith(f"note: broker-a master {cluster.broker_address}: ") for line in ended.lines)
    assert (fields["brokers"], fields["groups"]) == (1, 0)
    assert {"check", "severity", "subject", "problem", "advice"} == set(fields["findings"][0])


async def test_a_problem_is_status_1_and_a_line_that_says_what_to_do(tmp_path: Path) -> None:
    async with open_real_cluster(tmp_path, broker_ip1="127.0.0.2") as cluster:
        ended = await run("doctor", "-n", cluster.address, "--watch", "0")
    assert ended.status == 1
    (line,) = [line for line in ended.lines if line.startswith("problem: broker-a master 127.0.0.2:")]
    assert "does not answer" in line
    assert line.endswith("set brokerIP1, or open the port.")


async def test_a_nameserver_that_is_away_is_a_finding() -> None:
    ended = await run("doctor", "-n", "127.0.0.1:1")
    assert ended.status == 1
    assert ended.lines[0].startswith("problem: nameserver 127.0.0.1:1: it does not answer: ")
    assert ended.lines[-1] == "0 brokers, 0 groups: 1 problem, 0 notes"


async def test_wrong_use_is_status_2() -> None:
    assert (await run("doctor", "--watch", "-1")).status == 2
    assert (await run("doctor", "surplus")).status == 2

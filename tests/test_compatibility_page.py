"""``docs/compatibility.md`` says what a running cluster answers, and knows every difference that the code marks."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.client.client import open_client, open_producer
from rocketpy.errors import RemotingError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.message import Message
from rocketpy.remoting.client import RemotingClient
from tests.client.fake_cluster import open_fake_cluster
from tests.client.real_cluster import open_real_cluster
from tests.patience import PATIENCE_SECONDS
from tests.remoting.patient_client import open_patient_client
from tests.sent_codes import named_files

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "compatibility.md").read_text()
ROW = re.compile(r"^\| (\d+) \| (\w+) \| (served|not supported) \| (\S+) \| .* \|$", re.MULTILINE)
DIFFERENCES = PAGE.split("\n## Deliberate differences\n", 1)[1]
MODULES = re.findall(r"`([a-z0-9_/]+\.py)`", DIFFERENCES)
ONEWAY_OF_BROKERS = {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, RequestCode.RESET_CONSUMER_CLIENT_OFFSET}
UNSUPPORTED = re.compile(r" request type \d+ not supported")


@attrs.frozen
class Row:
    """One row of a table of request codes."""

    code: int
    name: str
    is_served: bool
    test: str


def rows(heading: str) -> dict[int, Row]:
    """The rows of the table under a heading, by code."""
    section = PAGE.split(f"\n### {heading}\n", 1)[1].split("\n#", 1)[0]
    found = [Row(int(code), name, answer == "served", test) for code, name, answer, test in ROW.findall(section)]
    assert len(found) == section.count("\n| ") - 1, f"a row under {heading} is not in the usual form"
    assert len({row.code for row in found}) == len(found), f"a code has two rows under {heading}"
    return {row.code: row for row in found}


async def supported(client: RemotingClient, address: str) -> set[int]:
    """Ask every code, without fields; whatever is not "not supported" is served, if only with a refusal."""
    found: set[int] = set()

    async def ask(code: int) -> None:
        try:
            response = await client.request(address, make_request(code), 10)
        except RemotingError as failure:
            raise AssertionError(f"request code {code} got no answer") from failure
        if response.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED or not UNSUPPORTED.fullmatch(response.remark or ""):
            found.add(code)

    async with trio.open_nursery() as nursery:
        for code in RequestCode:
            nursery.start_soon(ask, int(code))
    return found


async def test_the_tables_of_codes_are_what_a_cluster_answers(tmp_path: Path) -> None:
    async with open_real_cluster(tmp_path) as cluster, open_patient_client() as client:
        for heading, address in (("Nameserver", cluster.address), ("Broker", cluster.broker_address)):
            claimed = {row.code for row in rows(heading).values() if row.is_served}
            answered = await supported(client, address)
            assert claimed == answered, (
                f"{heading}: served without a row: {sorted(answered - claimed)}, "
                f"a row without being served: {sorted(claimed - answered)}"
            )


async def test_a_client_without_the_role_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """A broker asks its clients too: what a client has no role for is answered so, or not at all if oneway."""
    expected = sorted(codes_of_members())
    async with open_fake_cluster() as cluster, open_producer(cluster.address, group="asked") as client:
        with trio.fail_after(PATIENCE_SECONDS):
            await client.send(Message("TBW102", b"x"))
            (peer,) = cluster.broker.peers
            for code in expected:
                if code in ONEWAY_OF_BROKERS:
                    peer.oneway(make_request(code))
                with caplog.at_level(logging.INFO, "rocketpy.remoting"):
                    response = await peer.request(make_request(code), PATIENCE_SECONDS)
                assert response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                assert response.remark == f" request type {code} not supported"
    logged = [text for text in caplog.messages if text.endswith("is not supported by this client")]
    assert logged == [f"request code {code} of a server is not supported by this client" for code in expected]


async def test_a_member_of_a_group_serves_what_the_table_says() -> None:
    """Without fields each of its requests is refused; those for producers are not supported."""
    async with (
        open_fake_cluster() as cluster,
        open_client(cluster.address) as client,
        client.consumer("asked", "TBW102") as consumer,
    ):
        with trio.fail_after(PATIENCE_SECONDS):
            await consumer.wait_assigned()
            peer = cluster.broker.peers[0]
            answered = {
                code: (await peer.request(make_request(code), PATIENCE_SECONDS)).code for code in rows("Clients")
            }
    not_supported = {code for code, answer in answered.items() if answer == ResponseCode.REQUEST_CODE_NOT_SUPPORTED}
    assert not_supported == rows("Clients").keys() - codes_of_members()


def codes_of_members() -> set[int]:
    """The codes that only a member of a group serves."""
    return {code for code, row in rows("Clients").items() if row.test.startswith("tests/client/consumer/")}


def test_every_code_has_a_row_under_its_name() -> None:
    tables = [rows(heading) for heading in ("Nameserver", "Broker", "Clients")]
    assert set().union(*tables) == set(RequestCode)
    for row in [row for table in tables for row in table.values()]:
        assert RequestCode(row.code).name == row.name


@pytest.mark.parametrize("heading", ["Nameserver", "Broker", "Clients"])
def test_the_tests_that_rows_name_are_there(heading: str) -> None:
    """That they ask for the code is held by :mod:`tests.sent_codes`, wherever they run."""
    for row in rows(heading).values():
        assert (ROOT / row.test).is_file(), row
        assert not row.is_served or "interop" in row.test or row.code in named_files()[row.test]


def test_modules_that_the_page_names_exist() -> None:
    for name in MODULES:
        assert (ROOT / "rocketpy" / name).is_file(), name


def test_every_difference_that_the_code_marks_is_on_the_page() -> None:
    """A marker that only names the Java class says nothing more than that name; every other tells a difference."""
    missing = [
        str(path.relative_to(ROOT / "rocketpy"))
        for path in sorted((ROOT / "rocketpy").rglob("*.py"))
        if any(map(_tells_a_difference, _markers(path.read_text())))
    ]
    missing = [name for name in missing if name not in MODULES]
    assert not missing, f"modules with a difference that docs/compatibility.md does not name: {missing}"


def _markers(source: str) -> list[str]:
    """The text after each ``Compatibility:``, to the end of its paragraph."""
    return [
        " ".join(re.split(r'\n\s*\n|"""', rest, maxsplit=1)[0].split()) for rest in source.split("Compatibility:")[1:]
    ]


def _tells_a_difference(marker: str) -> bool:
    return re.search(r"\b(here|Java|RocketMQ|which|where|difference)\b", marker.split("(4.9.8)")[-1]) is not None

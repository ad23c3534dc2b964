from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.broker.replication.master_addresses import MasterAddresses

NS1, NS2 = "ns1:9876", "ns2:9876"
OWN = "10.0.0.2:10911"
A, A_HA = "10.0.0.1:10911", "10.0.0.1:10912"
B, B_HA = "10.0.0.3:10911", "10.0.0.3:10912"


def shown(addresses: MasterAddresses) -> tuple[str | None, str | None]:
    return addresses.master_addr, addresses.ha_server_addr


def test_nothing_is_known_before_the_first_answer() -> None:
    addresses = MasterAddresses(own_addr=OWN)
    assert shown(addresses) == (None, None)
    assert not addresses.is_complete


def test_an_answer_brings_both_addresses() -> None:
    addresses = MasterAddresses(own_addr=OWN)
    addresses.take(NS1, A, A_HA)
    assert shown(addresses) == (A, A_HA)
    assert addresses.is_complete


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_master_that_has_gone_takes_the_address_for_requests_with_it(nothing: str | None) -> None:
    addresses = MasterAddresses(own_addr=OWN)
    addresses.take(NS1, A, A_HA)
    addresses.take(NS1, nothing, nothing)
    assert shown(addresses) == (None, A_HA)
    assert not addresses.is_complete


def test_a_master_that_comes_back_elsewhere_replaces_both() -> None:
    addresses = MasterAddresses(own_addr=OWN)
    for answer in ((A, A_HA), (None, None), (B, B_HA)):
        addresses.take(NS1, *answer)
    assert shown(addresses) == (B, B_HA)


def test_a_nameserver_that_knows_no_master_does_not_contradict_one_that_does() -> None:
    addresses = MasterAddresses(own_addr=OWN)
    addresses.take(NS1, A, A_HA)
    addresses.take(NS2, None, None)
    assert shown(addresses) == (A, A_HA)
    addresses.take(NS1, None, None)
    assert addresses.master_addr is None


def test_of_two_masters_the_one_that_was_named_last_counts_however_often_the_other_is_repeated() -> None:
    """The entry of a master that has vanished stays for two minutes where the new one cannot register."""
    addresses = MasterAddresses(own_addr=OWN)
    addresses.take(NS1, A, A_HA)
    addresses.take(NS2, A, A_HA)
    addresses.take(NS2, B, B_HA)
    addresses.take(NS1, A, A_HA)
    assert shown(addresses) == (B, B_HA)


def test_a_nameserver_may_change_its_mind_before_the_others_do() -> None:
    addresses = MasterAddresses(own_addr=OWN)
    addresses.take(NS1, A, A_HA)
    addresses.take(NS2, A, A_HA)
    addresses.take(NS1, B, B_HA)
    assert shown(addresses) == (B, B_HA)


def test_a_configured_address_counts_for_replication_alone() -> None:
    addresses = MasterAddresses(own_addr=OWN, ha_master_address=B_HA)
    assert shown(addresses) == (None, B_HA)
    assert not addresses.is_complete
    addresses.take(NS1, A, A_HA)
    assert shown(addresses) == (A, B_HA)


def test_a_broker_is_never_its_own_master() -> None:
    """Its entry with id 0 is of the time before it was configured as a slave."""
    addresses = MasterAddresses(own_addr=OWN)
    addresses.take(NS1, OWN, "10.0.0.2:10912")
    assert shown(addresses) == (None, None)


@pytest.mark.parametrize("malformed", [("nonsense", A_HA), (A, "h:port"), (A, "h:99999999")])
def test_malformed_addresses_are_logged_once_and_skipped(
    malformed: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    addresses = MasterAddresses(own_addr=OWN)
    for _ in range(3):
        addresses.take(NS1, *malformed)
    assert shown(addresses) == (None, None)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_a_change_wakes_who_waits_and_a_repetition_does_not() -> None:
    addresses = MasterAddresses(own_addr=OWN)
    woken: list[str | None] = []

    async def wait() -> None:
        while True:
            await addresses.wait_changed()
            woken.append(addresses.master_addr)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        for answer in ((A, A_HA), (A, A_HA), (None, None), (None, None), (B, B_HA)):
            await trio.testing.wait_all_tasks_blocked()
            addresses.take(NS1, *answer)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert woken == [A, None, B]

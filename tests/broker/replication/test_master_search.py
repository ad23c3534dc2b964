from __future__ import annotations

import pytest

from rocketpy.broker.replication.master_addresses import MasterAddresses
from rocketpy.broker.replication.master_search import MasterSearch
from rocketpy.store.ha.client import HAClientStatistics, HAState


@pytest.mark.parametrize("state", HAState)
def test_it_goes_on_until_the_log_is_followed_or_cannot_be(state: HAState) -> None:
    addresses = MasterAddresses(own_addr="10.0.0.2:10911")
    search = MasterSearch(addresses, statistics=lambda: HAClientStatistics(state, "", "", 0, 0, 0))
    assert not search.is_complete
    search.take("ns:9876", "10.0.0.1:10911", "10.0.0.1:10912")
    assert addresses.master_addr == "10.0.0.1:10911"
    assert search.is_complete == (state in (HAState.FOLLOWING, HAState.STOPPED))
    search.take("ns:9876", None, None)
    assert not search.is_complete

"""Addresses and message ids of both kinds."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import numpy as np

from rocketpy.protocol.host import encode_host
from rocketpy.protocol.message_id import encode_offset_msg_id
from rocketpy.spark.columns.hosts import host_column, message_id_column

V4 = ["10.0.0.1:10911", "255.255.255.255:-1", "0.0.0.0:0", "10.0.0.1:10911"]
V6 = ["[2001:db8::1]:10911", "[::]:2147483647", "[2001:db8::1]:10911"]


@pytest.mark.parametrize("hosts", [V4, V6, [*V4, *V6], [*V6, *V4, *V6], []])
def test_hosts_and_ids_are_those_of_the_decoder(hosts: list[str]) -> None:
    encoded = [encode_host(each) for each in hosts]
    buffer = b"xxx" + b"/".join(encoded)
    sizes = np.array([len(each) for each in encoded], np.int64)
    starts = 3 + np.cumsum(sizes + 1) - (sizes + 1)
    offsets = np.array([0, 2**63 - 1, -1, 4096, 7, 8, 9, 10, 11, 12][: len(hosts)], np.int64)
    texts, ids = host_column(buffer, starts, sizes), message_id_column(buffer, starts, sizes, offsets)
    texts.validate(full=True)
    ids.validate(full=True)
    assert texts.to_pylist() == hosts
    assert ids.to_pylist() == [
        encode_offset_msg_id(host, offset) for host, offset in zip(encoded, offsets.tolist(), strict=True)
    ]

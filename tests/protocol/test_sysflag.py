"""The bits of system flags, held against Java's own."""

from __future__ import annotations

import pytest

from rocketpy.protocol.sysflag import (
    COMPRESSED_FLAG,
    NO_QUEUE_FLAG,
    PULL_LITE_PULL_FLAG,
    TRANSACTION_COMMIT_TYPE,
    TRANSACTION_NOT_TYPE,
    TRANSACTION_PREPARED_TYPE,
    TRANSACTION_ROLLBACK_TYPE,
    pull_sys_flag,
    transaction_type,
    with_transaction_type,
)
from tests.recorded import VECTORS


@pytest.mark.parametrize("vector", VECTORS["pull_sys_flag"], ids=lambda vector: str(vector["flag"]))
def test_pull_flags_are_those_of_java(vector: dict[str, int]) -> None:
    flag = pull_sys_flag(
        commit_offset=bool(vector["commit"]),
        suspend=bool(vector["suspend"]),
        subscription=bool(vector["subscription"]),
        class_filter=bool(vector["class_filter"]),
    )
    assert flag == vector["flag"]
    assert flag | PULL_LITE_PULL_FLAG == vector["lite"]


def test_the_transaction_type_is_replaced_and_nothing_else() -> None:
    flag = COMPRESSED_FLAG | TRANSACTION_ROLLBACK_TYPE | 0x310
    assert transaction_type(flag) == TRANSACTION_ROLLBACK_TYPE
    for wanted in (TRANSACTION_NOT_TYPE, TRANSACTION_PREPARED_TYPE, TRANSACTION_COMMIT_TYPE, TRANSACTION_ROLLBACK_TYPE):
        changed = with_transaction_type(flag, wanted)
        assert transaction_type(changed) == wanted
        assert changed & ~TRANSACTION_ROLLBACK_TYPE == COMPRESSED_FLAG | 0x310


def test_prepared_and_rolled_back_share_the_bit_of_no_queue() -> None:
    assert [bool(flag & NO_QUEUE_FLAG) for flag in (0x0, 0x4, 0x8, 0xC)] == [False, True, False, True]

"""The refusal of a slave; which requests it is for, ``tests/broker/test_slave.py`` asks over frames."""

from __future__ import annotations

import pytest

from rocketpy.broker.admin.slave_refusal import refuse_on_slave
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode


def test_a_slave_refuses_with_javas_remark() -> None:
    with pytest.raises(RequestError) as raised:
        refuse_on_slave(is_slave=True)
    assert raised.value.response_code == ResponseCode.SYSTEM_ERROR
    assert raised.value.remark == (
        "Can't modify topic or subscription group from slave broker, please execute it from master broker."
    )


def test_a_master_refuses_nothing() -> None:
    refuse_on_slave(is_slave=False)

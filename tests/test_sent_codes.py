"""The guard over files that are named for request codes sees what reaches a dispatcher, and fails who asks nothing."""

from __future__ import annotations

import pytest

from rocketpy.protocol.codes import RequestCode, SerializeType
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from tests.broker.broker_on_bytes import Transport
from tests.sent_codes import CodesNote, check_asked, named_files

PATH, CODES = next((path, codes) for path, codes in named_files().items() if len(codes) > 1)


def ask(request: RemotingCommand) -> None:
    connection = Connection(
        address=("10.0.0.1", 5),
        dispatcher=Dispatcher(),
        transport=Transport(lambda _: None),
        limits=ConnectionLimits(),
        now=0.0,
    )
    connection.receive(encode_frame(request))
    connection.serve(8)


@pytest.mark.parametrize("form", SerializeType)
def test_a_request_that_reaches_a_dispatcher_is_noted(form: SerializeType) -> None:
    dispatch = Dispatcher.dispatch
    note = CodesNote()
    note.open()
    try:
        request = make_request(RequestCode.LOCK_BATCH_MQ)
        request.serialize_type = form
        ask(request)
        make_request(RequestCode.UNLOCK_BATCH_MQ)  # which no peer receives
    finally:
        codes = note.close()
    assert codes == {RequestCode.LOCK_BATCH_MQ}
    assert Dispatcher.dispatch is dispatch
    ask(make_request(RequestCode.UNLOCK_BATCH_MQ))
    assert codes == {RequestCode.LOCK_BATCH_MQ}


def test_a_file_that_does_not_ask_for_all_of_its_codes_fails() -> None:
    check_asked(PATH, set(CODES))
    with pytest.raises(AssertionError, match="and never asks for them"):
        check_asked(PATH, set(list(CODES)[1:]))


def test_every_served_code_is_asked_for_by_some_file() -> None:
    """But those that only other people's clients are asked with."""
    assert len(set().union(*named_files().values())) > 70

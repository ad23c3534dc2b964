"""The table of processors. What it answers is tested over sockets in test_server; here is what is left."""

from __future__ import annotations

import pytest

from rocketpy.errors import DescriptorShortageError, DiskFullError, RequestError, ShortageError, StoreError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import ONEWAY_FLAG, RemotingCommand, make_response
from rocketpy.protocol.frame import FRAME_LENGTH_MAX, encode_frame
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED
from rocketpy.remoting.dispatch import REMARK_LENGTH_MAX, Dispatcher, FastPath
from tests.remoting.test_connection import make_connection, sent


def dispatch(dispatcher: Dispatcher, *requests: RemotingCommand) -> tuple[list[RemotingCommand], Connection]:
    """Dispatch requests of one connection; return the answers so far, and the connection."""
    connection, _ = make_connection()
    for request in requests:
        dispatcher.dispatch(connection, 0, encode_frame(request)[8:], None)
    return sent(connection), connection


def test_a_code_has_one_processor() -> None:
    dispatcher = Dispatcher()
    dispatcher.register((1, 2), lambda c, r: None)
    with pytest.raises(AssertionError, match="two processors for request code 2"):
        dispatcher.register(2, lambda c, r: None)


def test_the_vip_port_refuses_the_configured_codes_and_shares_the_rest() -> None:
    dispatcher = Dispatcher()
    dispatcher.register((10, 11), lambda c, r: make_response(r))
    dispatcher.register_fast_path(11, lambda c, h, b: True)
    dispatcher.register_fast_path(310, lambda c, h, b: True)
    fast = dispatcher.without([11])
    assert list(fast.fast_paths) == [b'{"code":310,']
    (ten, eleven), _ = dispatch(fast, RemotingCommand(code=10), RemotingCommand(code=11))
    assert ten.code == 0
    assert eleven.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_unknown_codes_are_cached_up_to_a_bound() -> None:
    """A peer that counts through all codes neither fills the log nor the memory."""
    seen: list[int] = []
    dispatcher = Dispatcher(unsupported_log=seen.append)
    codes = (*range(2000, 4000), *range(2000, 4000))
    answers, _ = dispatch(dispatcher, *(RemotingCommand(code=code, flag=ONEWAY_FLAG) for code in codes))
    assert seen[:2000] == [*range(2000, 4000)]
    assert seen[2000:] == [*range(2000 + 1024, 4000)], "as many as the bound are remembered, and not reported again"
    assert answers == []


def test_too_many_slow_commands_are_refused_as_busy() -> None:
    connection, transport = make_connection()
    transport.takes_tasks = False
    dispatcher = Dispatcher()

    async def slow(connection: object, request: RemotingCommand) -> None:
        raise AssertionError("not reached")

    dispatcher.register_task(12, slow)
    dispatcher.dispatch(connection, 0, encode_frame(RemotingCommand(code=12))[8:], None)
    (busy,) = sent(connection)
    assert busy.code == ResponseCode.SYSTEM_BUSY
    assert busy.remark is not None
    assert busy.remark.startswith("[OVERLOAD]system busy")


@pytest.mark.parametrize(
    "shortage",
    [DiskFullError(path="/f", wanted_bytes=2, free_bytes=1), DescriptorShortageError("cannot open", path="/f")],
)
async def test_a_shortage_refuses_one_request_with_its_cause(
    shortage: ShortageError, caplog: pytest.LogCaptureFixture
) -> None:
    """A processor, a fast path and a slow command alike; any other StoreError still ends the program."""
    dispatcher = Dispatcher()
    connection, transport = make_connection(dispatcher=dispatcher)

    def fail(*_: object) -> None:
        raise shortage

    async def fail_slowly(*_: object) -> None:
        raise shortage

    dispatcher.register(50, fail)
    dispatcher.register_task(51, fail_slowly)
    dispatcher.register_fast_path(11, fail)  # type: ignore[arg-type]
    for code in (50, 51, 11):
        connection.receive(encode_frame(RemotingCommand(code=code, opaque=code, ext_fields={"a": "b"})))
    connection.serve(10)
    (slow,) = transport.tasks
    await slow()
    answers = sent(connection)
    assert sorted(each.opaque for each in answers) == [11, 50, 51]
    assert {each.code for each in answers} == {ResponseCode.SYSTEM_BUSY}
    assert {each.remark for each in answers} == {str(shortage)}
    assert len(caplog.records) == 2, "of the first and the second; not a line for each"
    shortage = StoreError("the disk is gone", path="/f")  # type: ignore[assignment]
    for code in (50, 11):
        connection.receive(encode_frame(RemotingCommand(code=code, opaque=code, ext_fields={"a": "b"})))
        with pytest.raises(StoreError):
            connection.serve(1)


def test_a_deferral_is_counted() -> None:
    dispatcher = Dispatcher()
    dispatcher.register(10, lambda c, r: DEFERRED)
    _, connection = dispatch(dispatcher, RemotingCommand(code=10))
    assert connection.deferred_count == 1


def test_an_answer_that_no_frame_can_hold_is_an_error_answer() -> None:
    dispatcher = Dispatcher()
    dispatcher.register(10, lambda c, r: make_response(r, body=bytes(FRAME_LENGTH_MAX)))
    (answer,), _ = dispatch(dispatcher, RemotingCommand(code=10, opaque=7))
    assert (answer.opaque, answer.code) == (7, ResponseCode.SYSTEM_ERROR)
    assert answer.remark is not None
    assert "expected at most 16777216 bytes" in answer.remark


def refuse_secrets(connection: Connection, request: RemotingCommand) -> None:
    if (request.ext_fields or {}).get("who") != "friend":
        raise RequestError(ResponseCode.SYSTEM_ERROR, "not for you")


def test_a_request_that_is_not_allowed_reaches_nothing() -> None:
    """Unknown codes are refused too: an unknown peer does not even learn what is served."""
    dispatcher = Dispatcher(authorize=refuse_secrets)
    dispatcher.register(10, lambda c, r: make_response(r))
    answers, _ = dispatch(
        dispatcher, *(RemotingCommand(code, fields) for code in (10, 9999) for fields in (None, {"who": "friend"}))
    )
    assert [(each.code, each.remark) for each in answers] == [
        (1, "not for you"),
        (0, None),
        (1, "not for you"),
        (3, " request type 9999 not supported"),
    ]


def test_a_fast_path_is_taken_only_after_its_guard() -> None:
    """What the guard does not allow goes to ``authorize``; a code without a guard has no fast path at all."""
    served: list[bytes] = []

    def fast_path(connection: Connection, header: bytes, body: bytes | None) -> bool:
        served.append(header)
        return True

    def guard(guarded: FastPath) -> FastPath:
        return lambda connection, header, body: b"friend" in header and guarded(connection, header, body)

    dispatcher = Dispatcher(authorize=refuse_secrets, fast_guards={310: guard})
    dispatcher.register_fast_path(310, fast_path)
    dispatcher.register_fast_path(11, fast_path)
    assert list(dispatcher.fast_paths) == [b'{"code":310,'] == list(dispatcher.without([11]).fast_paths)
    connection, _ = make_connection()
    guarded = dispatcher.fast_paths[b'{"code":310,']
    assert guarded(connection, b"friend", None)
    assert not guarded(connection, b"stranger", None)
    assert served == [b"friend"]


def test_the_vip_port_asks_the_same_questions() -> None:
    dispatcher = Dispatcher(authorize=refuse_secrets)
    dispatcher.register(10, lambda c, r: make_response(r))
    dispatcher.register_rpc_hook(recorder := Recorder())
    (answer,), _ = dispatch(dispatcher.without([11]), RemotingCommand(10))
    assert answer.remark == "not for you"
    assert not [each for each in recorder.seen if each[0] == "before"], "a hook sees what is authorized"


class Recorder:
    """A hook that notes what it sees, and refuses code 12."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int | None]] = []

    def before_request(self, peer: str, request: RemotingCommand) -> None:
        self.seen.append(("before", request.code, None))
        if request.code == 12:
            raise RequestError(ResponseCode.NO_PERMISSION, "the hook says no")

    def after_response(self, peer: str, request: RemotingCommand, response: RemotingCommand | None) -> None:
        self.seen.append(("after", request.code, None if response is None else response.code))


def test_a_hook_sees_every_request_and_its_answer() -> None:
    """There is no fast path then: a hook that missed some requests would be worse than none."""
    dispatcher = Dispatcher()
    dispatcher.register((10, 12), lambda c, r: make_response(r))
    dispatcher.register(11, lambda c, r: DEFERRED)
    dispatcher.register_fast_path(310, lambda c, h, b: True)
    recorder = Recorder()
    dispatcher.register_rpc_hook(recorder)
    dispatcher.register_fast_path(311, lambda c, h, b: True)
    assert not dispatcher.fast_paths
    answers, _ = dispatch(dispatcher.without([]), *map(RemotingCommand, (10, 11, 12)))
    assert recorder.seen == [
        ("before", 10, None),
        ("after", 10, 0),
        ("before", 11, None),
        ("after", 11, None),
        ("before", 12, None),
        ("after", 12, ResponseCode.NO_PERMISSION),
    ]
    assert [each.code for each in answers] == [0, ResponseCode.NO_PERMISSION]


async def test_a_hook_sees_the_answer_of_a_slow_command() -> None:
    connection, transport = make_connection()
    dispatcher = Dispatcher()

    async def slow(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return make_response(request, 17)

    dispatcher.register_task(12, slow)
    recorder = Recorder()
    recorder.before_request = lambda peer, request: None  # type: ignore[method-assign]
    dispatcher.register_rpc_hook(recorder)
    dispatcher.dispatch(connection, 0, encode_frame(RemotingCommand(code=12))[8:], None)
    await transport.tasks[0]()
    assert recorder.seen == [("after", 12, 17)]


def test_a_remark_that_repeats_megabytes_is_cut() -> None:
    def refuse(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        raise RequestError(ResponseCode.SYSTEM_ERROR, "found " + "x" * (1 << 20))

    dispatcher = Dispatcher()
    dispatcher.register(310, refuse)
    (answer,), _ = dispatch(dispatcher, RemotingCommand(code=310))
    assert answer.remark == "found " + "x" * (REMARK_LENGTH_MAX - 6) + "..."

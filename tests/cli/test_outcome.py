"""How failures become sentences and statuses."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest
import trio
import typer

from rocketpy.cli.outcome import CommandError, naming_topic, outcome, run_async
from rocketpy.errors import BrokerError, ClientError, ClientErrorCode, RemotingConnectError
from tests.cli.conftest import heeded_interrupt


@pytest.fixture
def output_to_a_pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Stdout is a pipe of our own, so that it can be given up."""
    reading, writing = os.pipe()
    with open(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        yield reading
        monkeypatch.undo()
    os.close(reading)


def status_of(failure: BaseException | None) -> int | None:
    try:
        with outcome():
            if failure is not None:
                raise failure
    except typer.Exit as leaving:
        return leaving.exit_code
    return None


def test_nothing_raised_is_no_exit() -> None:
    assert status_of(None) is None


@pytest.mark.parametrize(
    ("failure", "status", "sentence"),
    [
        (RemotingConnectError("cannot connect to a:1"), 1, "rocketpy: cannot connect to a:1\n"),
        (CommandError("no queue '7'"), 1, "rocketpy: no queue '7'\n"),
        (KeyboardInterrupt(), 130, ""),
        (BaseExceptionGroup("", [KeyboardInterrupt(), CommandError("x")]), 130, ""),
        (ExceptionGroup("", [ExceptionGroup("", [CommandError("deep")]), CommandError("x")]), 1, "rocketpy: deep\n"),
    ],
)
def test_expected_failures(
    failure: BaseException, status: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(failure) == status
    assert capsys.readouterr().err == sentence


def test_control_c_reaches_a_command_where_it_waits_and_breaks_no_other_task() -> None:
    async def interrupted() -> None:
        signal.raise_signal(signal.SIGINT)
        went_on.append(True)

    async def command() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(interrupted)
            await trio.sleep_forever()

    went_on: list[bool] = []
    with heeded_interrupt(), pytest.raises(typer.Exit) as left, outcome():
        run_async(command)
    assert (left.value.exit_code, went_on) == (130, [True])


@pytest.mark.parametrize("failure", [BrokenPipeError(), ExceptionGroup("", [BrokenPipeError(), CommandError("x")])])
def test_a_reader_that_has_seen_enough_is_no_failure(failure: BaseException, output_to_a_pipe: int) -> None:
    print("never read", end="")
    assert status_of(failure) == 0


def test_bugs_keep_their_trace() -> None:
    with pytest.raises(ZeroDivisionError):
        status_of(ZeroDivisionError())
    with pytest.raises(ExceptionGroup):
        status_of(ExceptionGroup("", [ZeroDivisionError(), CommandError("x")]))


def test_a_topic_without_a_route_is_explained() -> None:
    with pytest.raises(CommandError, match=r"no topic named 'T' at a:1 .*CODE: 10005"), naming_topic("T", "a:1"):
        raise ClientError(ClientErrorCode.NOT_FOUND_TOPIC_EXCEPTION, "No route info of this topic: T")
    for other in (ClientError(10003, "The broker[b] not exist"), BrokerError(17, "no", "a:1")):
        with pytest.raises(type(other)) as caught, naming_topic("T", "a:1"):
            raise other
        assert caught.value is other

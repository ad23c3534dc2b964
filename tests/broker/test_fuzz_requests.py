"""Every request code of a broker and of a nameserver with bad fields and bad bodies; codes are found, not listed.

What is promised of each answer is in ``fuzz_verdicts``, what "bad" means in ``fuzz_cases``.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from random import Random

import pytest

from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from tests.broker.fuzz_cases import bases_of, cases_of
from tests.broker.fuzz_verdicts import CREATE_IN_SPITE, PROBLEMS_SHOWN, Fuzz
from tests.broker.whole_broker import Whole, broker_settings, open_whole_broker, open_whole_nameserver


async def fuzzed(whole: Whole, peer: str, *, creates: bool = True, only: Collection[int] = ()) -> Fuzz:
    """Ask every code all its cases."""
    fuzz, random = Fuzz(whole, creates=creates), Random(20_000)
    for code in whole.codes:  # so that the topics and groups of the bases are there
        for base in bases_of(code, peer):
            await fuzz.ask_base(base)
    for code in only or whole.codes:
        for base in bases_of(code, peer):
            await fuzz.ask_all(base, cases_of(base, random))
    return fuzz


def report(fuzz: Fuzz, peer: str, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(
            f"\n{peer}: {fuzz.case_count} bad requests of {len(fuzz.whole.codes)} codes, {fuzz.refused_count} refused, "
            f"{fuzz.held_count} held, {len(fuzz.problems)} broken promises"
        )
    shown = "\n".join(fuzz.problems[:PROBLEMS_SHOWN])
    assert not fuzz.problems, f"{len(fuzz.problems)} broken promises, the first of them:\n{shown}"


async def test_a_broker_answers_every_bad_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_whole_broker(broker_settings(tmp_path)) as whole:
        assert len(whole.codes) > 50
        fuzz = await fuzzed(whole, "broker")
        report(fuzz, "broker", capsys)
        assert fuzz.case_count > 20_000
        assert fuzz.held_count > 50
        # After all that it does its work.
        (route,) = await whole.ask_frame(
            encode_frame(
                RemotingCommand(
                    code=RequestCode.SEND_MESSAGE_V2,
                    ext_fields={
                        "a": "p", "b": "After", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0",
                    },
                    body=b"still here",
                )
            ),
            whole.connect(),
        )  # fmt: skip
        assert route.code == 0, route


async def test_without_automatic_creation_what_is_refused_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = broker_settings(tmp_path, auto_create_topic_enable=False, auto_create_subscription_group=False)
    async with open_whole_broker(settings) as whole:
        fuzz = await fuzzed(whole, "broker", creates=False, only=sorted(CREATE_IN_SPITE))
        report(fuzz, "broker without automatic creation", capsys)


async def test_a_nameserver_answers_every_bad_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_whole_nameserver(tmp_path) as whole:
        assert len(whole.codes) >= 20
        fuzz = await fuzzed(whole, "namesrv")
        report(fuzz, "nameserver", capsys)
        assert fuzz.case_count > 4_000


def test_every_code_has_a_base_that_makes_sense() -> None:
    """Recorded or made of a header class: fuzzing an empty request only would prove little."""
    for peer, code in (("broker", RequestCode.SEND_MESSAGE_V2), ("namesrv", RequestCode.REGISTER_BROKER)):
        fields = [len(base.ext_fields or {}) for base in bases_of(int(code), peer)]
        assert max(fields) > 5

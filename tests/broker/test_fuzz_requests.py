"""Every request code of a broker and of a nameserver with bad fields and bad bodies; codes are found, not listed.

What is promised of each answer is in ``fuzz_verdicts``, what "bad" means in ``fuzz_cases``.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import ONEWAY_FLAG, RemotingCommand, make_response
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.signature import ACCESS_KEY, SIGNATURE, RequestSigner, SessionCredentials
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Processor
from tests.broker.fuzz_cases import FIELD_VALUES, Case, bases_of, cases_of, changed, with_field
from tests.broker.fuzz_verdicts import CREATE_IN_SPITE, PROBLEMS_SHOWN, Fuzz
from tests.broker.whole_broker import Whole, broker_settings, open_whole_broker, open_whole_nameserver


async def fuzzed(whole: Whole, peer: str, *, creates: bool = True, only: Collection[int] = ()) -> Fuzz:
    """Ask every code all its cases."""
    fuzz, random = Fuzz(whole, creates=creates), Random(20_000)
    for code in whole.codes:  # so that the topics and groups of the bases are there
        for base in bases_of(code, peer):
            await fuzz.ask_base(base)
    for code in only or whole.codes:
        asked: set[str] = set()
        for base in bases_of(code, peer):
            await fuzz.ask_all(base, cases_of(base, random, asked))
            if peer == "broker" and code not in CREATE_IN_SPITE:  # these have fast paths, which read each form anew
                asked |= set(base.ext_fields or ())
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


async def test_without_automatic_creation_a_refusal_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = broker_settings(tmp_path, auto_create_topic_enable=False, auto_create_subscription_group=False)
    async with open_whole_broker(settings) as whole:
        fuzz = await fuzzed(whole, "broker", creates=False, only=sorted(CREATE_IN_SPITE))
        report(fuzz, "broker without automatic creation", capsys)


ACCOUNT = SessionCredentials("administrator", "a secret of ours")


def with_access_control(directory: Path) -> BrokerSettings:
    (directory / "plain_acl.yml").write_text(
        f"accounts:\n  - accessKey: {ACCOUNT.access_key}\n    secretKey: {ACCOUNT.secret_key}\n    admin: true\n"
    )
    return broker_settings(directory, acl_enable=True, acl_directory=str(directory))


async def test_no_request_passes_access_control_with_a_bad_signature(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every code, JSON and binary, fast paths included: with a spoiled account or signature nothing is done."""
    sign = RequestSigner(ACCOUNT)
    async with open_whole_broker(with_access_control(tmp_path)) as whole:
        fuzz = Fuzz(whole, creates=False)
        for code in whole.codes:
            for base in bases_of(code, "broker")[:2]:
                sign(base)
                fields = base.ext_fields or {}
                for name in (ACCESS_KEY, SIGNATURE):
                    for value in FIELD_VALUES:
                        case = Case(
                            changed(base, fields=with_field(fields, name, value)), name, f"{name} {value!r}", base
                        )
                        refused = fuzz.refused_count
                        await fuzz.ask(case, None)
                        assert fuzz.refused_count == refused + 1, case
                body = (base.body or b"") + b"!"
                await fuzz.ask(Case(changed(base, body=body), None, "another body than the signed one", base), None)
        fuzz.compare("all of them")
        assert fuzz.refused_count == fuzz.case_count
        report(fuzz, "broker with access control, bad signatures", capsys)


async def test_with_access_control_the_administrators_bad_requests_are_answered_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sign, random = RequestSigner(ACCOUNT), Random(4)
    async with open_whole_broker(with_access_control(tmp_path)) as whole:
        fuzz = Fuzz(whole)
        for code in whole.codes:
            for base in bases_of(code, "broker"):
                for case in islice(cases_of(base, random), code % 9, None, 9):
                    sign(case.command)
                    await fuzz.ask(case, None)
        report(fuzz, "broker with access control", capsys)


async def test_a_nameserver_answers_every_bad_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_whole_nameserver(tmp_path) as whole:
        assert len(whole.codes) >= 20
        fuzz = await fuzzed(whole, "namesrv")
        report(fuzz, "nameserver", capsys)
        assert fuzz.case_count > 4_000


def _fails(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    raise KeyError("unforeseen")


def _says_nothing(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    return make_response(request, ResponseCode.SYSTEM_ERROR)


def _says_something_else(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    if (request.ext_fields or {}).get("topic") == "TopicTest":
        return make_response(request)
    return make_response(request, ResponseCode.SYSTEM_ERROR, "no")


def _does_not_answer(connection: Connection, request: RemotingCommand) -> None:
    return None


def _answers_twice(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    connection.reply(make_response(request))
    return make_response(request)


def _hangs_up(connection: Connection, request: RemotingCommand) -> None:
    connection.close()


def _tells_of_python(connection: Connection, request: RemotingCommand) -> RemotingCommand:
    return make_response(request, ResponseCode.SYSTEM_ERROR, "topic: UnicodeDecodeError at 7")


def plant(whole: Whole, bug: Processor) -> None:
    """Let a request be processed by something else."""
    whole.dispatcher = whole.dispatcher.without([RequestCode.QUERY_TOPIC_CONSUME_BY_WHO])
    whole.dispatcher.register(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, bug)


@pytest.mark.parametrize(
    ("bug", "symptom"),
    [
        (_fails, "unforeseen"),
        (_says_nothing, "and no remark"),
        (_says_something_else, "does not name the field"),
        (_does_not_answer, "0 answers"),
        (_answers_twice, "2 answers"),
        (_hangs_up, "the connection was closed"),
        (_tells_of_python, "name of an exception"),
    ],
)
async def test_planted_bugs_are_found(tmp_path: Path, bug: Processor, symptom: str) -> None:
    async with open_whole_broker(broker_settings(tmp_path)) as whole:
        plant(whole, bug)
        fuzz = await fuzzed(whole, "broker", only=[RequestCode.QUERY_TOPIC_CONSUME_BY_WHO])
    assert any(symptom in problem for problem in fuzz.problems), fuzz.problems[:3]


async def test_a_refusal_that_changes_something_is_found(tmp_path: Path) -> None:
    async with open_whole_broker(broker_settings(tmp_path)) as whole:
        served = whole.dispatcher

        def changes_and_refuses(connection: Connection, request: RemotingCommand) -> RemotingCommand:
            fields = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": str(request.opaque)}
            update = RemotingCommand(code=RequestCode.UPDATE_CONSUMER_OFFSET, flag=ONEWAY_FLAG, ext_fields=fields)
            served.dispatch(connection, 0, encode_frame(update)[8:], None)
            return make_response(request, ResponseCode.SYSTEM_ERROR, "topic and everything else")

        plant(whole, changes_and_refuses)
        fuzz = await fuzzed(whole, "broker", only=[RequestCode.QUERY_TOPIC_CONSUME_BY_WHO])
    assert any("refused, and changed" in problem for problem in fuzz.problems), fuzz.problems[:3]


def test_every_code_has_a_base_that_makes_sense() -> None:
    """Recorded or made of a header class: fuzzing an empty request only would prove little."""
    for peer, code in (("broker", RequestCode.SEND_MESSAGE_V2), ("namesrv", RequestCode.REGISTER_BROKER)):
        fields = [len(base.ext_fields or {}) for base in bases_of(int(code), peer)]
        assert max(fields) > 5

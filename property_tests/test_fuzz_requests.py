"""Bad requests by chance: several fields and the body spoiled at once, many requests against one broker or nameserver.

The model is a sentence: whatever is asked, there is one answer, a refusal says why, and what is refused changes nothing
(``tests/broker/fuzz_verdicts.py``). What is asked is a base of some code (recorded from Java's clients, or made of a
header class) with a few fields and perhaps the body replaced. ``tests/broker/test_fuzz_requests.py`` goes through what
can be enumerated, and shows that planted bugs are found.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import attrs
import trio
from hypothesis import given, note
from hypothesis import strategies as st

from rocketpy.protocol.command import RemotingCommand
from tests.broker.fuzz_cases import BODIES, FIELD_VALUES, Case, bases_of, changed
from tests.broker.fuzz_verdicts import Fuzz
from tests.broker.whole_broker import Whole, broker_settings, open_whole_broker, open_whole_nameserver

REQUESTS_MAX = 60

_VALUES = st.sampled_from(FIELD_VALUES) | st.text(max_size=40) | st.integers().map(str)
_BODIES = st.sampled_from(BODIES) | st.binary(max_size=200) | st.text(max_size=100).map(lambda text: text.encode())


@attrs.frozen
class Spoiling:
    """What to take, by numbers of whatever there is then, and what to put into it."""

    code: int
    base: int
    fields: dict[int, str | None]
    body: bytes | None
    spoils_body: bool


SPOILINGS = st.builds(
    Spoiling,
    code=st.integers(0, 999),
    base=st.integers(0, 9),
    fields=st.dictionaries(st.integers(0, 20), _VALUES, max_size=4),
    body=_BODIES,
    spoils_body=st.booleans(),
)


def spoiled(whole: Whole, peer: str, spoiling: Spoiling) -> Case:
    """Return the request that a spoiling means for this program."""
    code = whole.codes[spoiling.code % len(whole.codes)]
    bases = bases_of(code, peer)
    base = bases[spoiling.base % len(bases)]
    fields = dict(base.ext_fields or {})
    names = list(fields) or ["topic"]
    for number, value in spoiling.fields.items():
        name = names[number % len(names)]
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = value
    command: RemotingCommand = changed(base, fields=fields)
    if spoiling.spoils_body:
        command.body = spoiling.body
    return Case(command, None, f"fields {fields!r}"[:300], base)


async def ask_all(whole: Whole, peer: str, spoilings: list[Spoiling], *, creates: bool) -> None:
    fuzz = Fuzz(whole, creates=creates)
    for spoiling in spoilings:
        await fuzz.ask(spoiled(whole, peer, spoiling), None)
    fuzz.compare("all of them")
    note(f"{fuzz.case_count} requests, {fuzz.refused_count} refused")
    assert not fuzz.problems, fuzz.problems


@given(spoilings=st.lists(SPOILINGS, max_size=REQUESTS_MAX), creates=st.booleans())
def test_a_broker_answers_whatever_it_is_asked(spoilings: list[Spoiling], creates: bool) -> None:
    async def run(directory: Path) -> None:
        settings = broker_settings(directory, auto_create_topic_enable=creates, auto_create_subscription_group=creates)
        async with open_whole_broker(settings) as whole:
            await ask_all(whole, "broker", spoilings, creates=creates)

    with tempfile.TemporaryDirectory() as directory:
        trio.run(run, Path(directory))


@given(spoilings=st.lists(SPOILINGS, max_size=REQUESTS_MAX))
def test_a_nameserver_answers_whatever_it_is_asked(spoilings: list[Spoiling]) -> None:
    async def run(directory: Path) -> None:
        async with open_whole_nameserver(directory) as whole:
            await ask_all(whole, "namesrv", spoilings, creates=True)

    with tempfile.TemporaryDirectory() as directory:
        trio.run(run, Path(directory))

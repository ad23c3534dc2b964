"""Types: of the shells as type checkers see them, and that they are those of the real thing."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from rocketpy import client as client_package
from rocketpy.client import aio, blocking
from rocketpy.client.callers import is_handed_over, taking_of
from rocketpy.client.shells.asyncio_shell import AsyncioShell
from rocketpy.client.shells.blocking_shell import BlockingShell
from rocketpy.client.shells.held_scope import HeldScope
from rocketpy.client.shells.loop_thread import LoopThread
from rocketpy.client.shells.members import Kind, handler_parameters, has_waiting_members, kind_of
from rocketpy.client.shells.shell import in_shell
from tests.client.shells.blocking_stub import STUB, Stub, classes, stub_name, written
from tests.client.shells.shell_cases import role

REPOSITORY = Path(__file__).parents[3]
ROLES = list(classes())
AWAITED = written().awaited
PUBLIC = [each for each in ROLES if each.__name__ in client_package.__all__]

PROGRAM = """
from rocketpy.client import Message, MessageBatch, aio, blocking

async def in_asyncio() -> None:
    async with aio.open_client() as client, client.producer("g") as producer, client.consumer("g", "T") as consumer:
        reveal_type(await producer.send(Message("T", b"")))  # rocketpy.client.results.SendResult
        reveal_type(await (await producer.send_soon(Message("T", b""))))  # rocketpy.client.results.SendResult
        reveal_type(client.admin())  # rocketpy.client.admin.admin_client.AdminClient
        async for batch in consumer:
            reveal_type(batch)  # rocketpy.client.consumer.batch.MessageBatch
    async with aio.open_lite_pull_consumer(group="g") as lite:
        reveal_type(await lite.poll())  # list[rocketpy.protocol.message.MessageExt]

def in_plain_code() -> None:
    with blocking.open_client() as client, client.producer("g") as producer, client.consumer("g", "T") as consumer:
        reveal_type(producer)  # rocketpy.client.blocking.Producer
        reveal_type(producer.send(Message("T", b"")))  # rocketpy.client.results.SendResult
        reveal_type(producer.send_nowait(Message("T", b"")).wait())  # rocketpy.client.results.SendResult
        reveal_type(client.admin().topics.names())  # list[str]
        for batch in consumer:
            reveal_type(batch)  # rocketpy.client.blocking.MessageBatch
            for message in batch:
                reveal_type(message.body)  # bytes
        with producer.batching() as batching:
            reveal_type(batching.flush())  # None

        def handle(batch: blocking.MessageBatch) -> None: ...

        async def handle_in_trio(batch: MessageBatch) -> None: ...

        reveal_type(consumer.run(handle))  # None
        consumer.run(handle_in_trio)  # error
    with blocking.open_lite_pull_consumer(group="g") as lite:
        reveal_type(lite.poll())  # list[rocketpy.protocol.message.MessageExt]
"""


def public_members(owner: type) -> set[str]:
    slots = {each for each in getattr(owner, "__slots__", ()) if not each.startswith("_")}
    return {name for name in dir(owner) if not name.startswith("_")} | slots


def mypy(program: Path, cache: Path) -> dict[int, str]:
    """Return what mypy reveals or refuses, by line."""
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), str(program)],
        cwd=program.parent,
        env={"MYPYPATH": str(REPOSITORY), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    told = re.findall(r"program\.py:(\d+): (error:.*|note: Revealed.*)", result.stdout)
    assert told, result.stdout + result.stderr
    return {int(number): text for number, text in told}


@cache
def stub_tree() -> ast.Module:
    """Return the stub, parsed once; it may not be changed."""
    return ast.parse(STUB.read_text())


def test_the_stub_is_what_the_sources_say() -> None:
    written, made = ast.parse(STUB.read_text()), ast.parse(Stub().text())
    for tree in (written, made):  # a formatter may order and wrap imports
        imports = [each for each in tree.body if isinstance(each, ast.ImportFrom)]
        imports.sort(key=lambda each: str(each.module))
        for each in imports:
            each.names.sort(key=lambda name: name.name)
        tree.body = [*imports, *(each for each in tree.body if not isinstance(each, ast.ImportFrom))]
    assert ast.dump(written) == ast.dump(made), "run python -m tests.client.shells.blocking_stub"


def test_every_iterator_loses_nothing_when_a_call_is_cancelled_as_it_ends() -> None:
    iterators = [each for each in ROLES if hasattr(each, "__anext__")]
    assert len(iterators) > 3
    for each in iterators:
        following = object.__new__(each).__anext__
        assert is_handed_over(following) or taking_of(following), each


def test_every_opener_and_class_of_the_stub_is_there() -> None:
    names = {each.name for each in stub_tree().body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    openers = {name for name in client_package.__all__ if name.startswith("open_")}
    assert {name for name in names if not name.startswith("_")} == openers | {each.__name__ for each in PUBLIC}
    assert openers == set(aio.__all__) == set(blocking.__all__) - {"THREAD_NAME"}
    waiting = {
        name
        for name in client_package.__all__
        if isinstance(each := getattr(client_package, name), type) and has_waiting_members(each)
    }
    assert waiting == {each.__name__ for each in PUBLIC}, "a role that no opener leads to"
    for owner in PUBLIC:
        assert issubclass(getattr(blocking, owner.__name__), BlockingShell)
    with pytest.raises(AttributeError, match="SendResult"):
        _ = blocking.SendResult  # type: ignore[attr-defined]


@pytest.mark.parametrize("owner", ROLES)
@pytest.mark.parametrize("kind", [AsyncioShell, BlockingShell])
def test_every_role_has_all_of_its_members_in_each_shell(owner: type, kind: type) -> None:
    shell = in_shell(kind, object.__new__(owner), LoopThread("of no call"), HeldScope(role))  # type: ignore[arg-type]
    assert type(shell).__name__ == owner.__name__
    (stub,) = (each for each in stub_tree().body if isinstance(each, ast.ClassDef) and each.name == stub_name(owner))
    functions = {each.name: each for each in stub.body if isinstance(each, ast.FunctionDef)}
    values = {
        each.target.id for each in stub.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    assert public_members(owner) <= set(functions) | values
    for name in public_members(owner):
        what = kind_of(owner, name)
        if what is Kind.VALUE:
            continue
        member = getattr(shell, name)
        assert inspect.iscoroutinefunction(member) is (kind is AsyncioShell and what is Kind.CALL)
        told, taken = functions[name].args, inspect.signature(member).parameters
        told_names = {each.arg for each in (*told.args[1:], *told.kwonlyargs, told.vararg) if each}
        assert told_names == set(taken) - {"task_status"}


def test_every_function_that_the_client_awaits_is_made_awaitable_by_the_shells() -> None:
    made = {
        f"{owner.__module__}.{name}"
        for owner in ROLES
        for name in public_members(owner)
        if kind_of(owner, name) is not Kind.VALUE and handler_parameters(getattr(owner, name))
    }
    assert made == AWAITED
    assert len(made) > 4


def test_type_checkers_see_exact_types(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The cache stays from run to run: mypy reads the whole client, and nearly all of it is as it was."""
    kept = request.config.cache.mkdir("mypy-of-the-shells")
    lines = ["import rocketpy.client", *PROGRAM.splitlines()]
    for owner in PUBLIC:
        name = owner.__name__
        lines.append(f"def of_{name}(one: rocketpy.client.{name}, other: blocking.{name}) -> None:")
        members = sorted(public_members(owner)) or ["__class__"]
        lines += [f"    reveal_type({each}.{member})  # exact" for each in ("one", "other") for member in members]
    program = tmp_path / "program.py"
    program.write_text("\n".join(lines))
    expected = {number: line.rpartition("  # ")[2] for number, line in enumerate(lines, 1) if "  # " in line}
    found = mypy(program, kept)
    assert set(found) == set(expected), found
    for number, text in found.items():
        if expected[number] == "error":
            assert "incompatible type" in text
        elif expected[number] == "exact":
            assert "Any" not in text.replace("Coroutine[Any, Any,", ""), text
        else:
            assert f'"{expected[number]}"' in text.replace("builtins.", ""), text

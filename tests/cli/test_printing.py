"""Nothing that a peer or a disk has written reaches a terminal as a command to it."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path

import pytest

import rocketpy.cli
from rocketpy.cli.consume import print_messages
from rocketpy.cli.dump import json_line, text_line
from rocketpy.cli.printing import escaped_body, json_bytes, print_json, print_line, print_lines
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.store.inspection.show.dump import Item
from tests.cli.conftest import TOPIC, run
from tests.cli.test_consume import consume_options
from tests.client.fake_cluster import FakeCluster
from tests.store.broken_stores import unpack

TITLE = "\x1b]0;owned\x07"
C1_TITLE = "\x9d0;owned\x9c"
HOSTILE = f"a{TITLE}\nforged: line{C1_TITLE}\x7f"


def test_a_line_stays_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(HOSTILE)
    print_lines(["first", HOSTILE], err=True)
    printed = capsys.readouterr()
    assert printed.out == "a\\x1b]0;owned\\x07\\nforged: line\\x9d0;owned\\x9c\\x7f\n"
    assert printed.err.splitlines() == ["first", printed.out.rstrip("\n")]


def test_json_is_the_same_value_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"topic": HOSTILE, "text": "кey \u00a0 \u0085"}
    assert json.loads(json_bytes(fields)) == fields
    print_json(fields)
    printed = capsys.readouterr().out
    assert printed.endswith("\n")
    assert not [each for each in printed[:-1] if ord(each) < 32 or 127 <= ord(each) < 160]
    assert "кey \u00a0" in printed, "what is no control character stays readable"


def test_bodies() -> None:
    assert escaped_body("grün\x1b[2J".encode() + b"\xff") == "grün\\x1b[2J\\xff".encode()


class Terminal(io.BytesIO):
    """An output that a person looks at."""

    def isatty(self) -> bool:
        return True


async def test_bodies_are_data_unless_a_terminal_shows_them(cluster: FakeCluster) -> None:
    cluster.broker.put(TOPIC, 0, TITLE.encode())
    file, terminal = io.BytesIO(), Terminal()
    await print_messages(consume_options(cluster), file)
    assert file.getvalue() == TITLE.encode() + b"\n"
    await print_messages(consume_options(cluster), terminal)
    assert terminal.getvalue() == b"\\x1b]0;owned\\x07\n"


async def test_names_and_remarks_of_peers(cluster: FakeCluster) -> None:
    cluster.add_topic(f"T{HOSTILE}")
    listed = await run("topic", "list", "-n", cluster.address)
    assert len(listed.lines) == 4, "a row for each topic, and the head"
    assert b"\x1b" not in listed.output
    cluster.broker.refuse(RequestCode.UPDATE_AND_CREATE_TOPIC, ResponseCode.SYSTEM_ERROR, HOSTILE)
    refused = await run("topic", "create", "New", "-n", cluster.address)
    assert refused.errors.startswith("rocketpy: CODE: 1  DESC: a\\x1b]0;owned\\x07\\nforged")
    assert refused.errors.count("\n") == 1


async def test_what_others_have_put_on_a_disk(tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    foreign = store.root / "consumequeue" / HOSTILE.replace("/", "")
    foreign.mkdir()
    (foreign / "0").mkdir()
    (foreign / "0" / "00000000000000000000").write_bytes(b"\x01" * 6000)
    for arguments in (("verify",), ("verify", "--json"), ("dump",), ("dump", "--json")):
        ended = await run("store", *arguments, str(store.root))
        shown = ended.output.decode() + ended.errors
        assert "forged" in shown, arguments
        assert not [each for each in shown if each != "\n" and (ord(each) < 32 or 127 <= ord(each) < 160)], arguments
        assert not [line for line in shown.splitlines() if line.startswith("forged")], arguments


def test_properties_keys_and_tags_of_messages() -> None:
    item = Item("record", {"keys": TITLE, "tags": None, "properties": {f"n{TITLE}": HOSTILE}, "body": "x"})
    line = text_line(item)
    assert line.isprintable()
    assert line.startswith("record keys=\\x1b]0;owned\\x07 tags=- properties={n\\x1b]0")
    assert not [each for each in json_line(item) if each < 32 or each == 127]


def test_commands_print_through_the_one_door() -> None:
    """A command added later cannot forget the escaping: it has no other way to print."""
    allowed = {"printing.py", "__main__.py"}  # the latter prints our version
    found = []
    for path in sorted(Path(rocketpy.cli.__file__).parent.glob("*.py")):
        if path.name in allowed:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "typer.echo",
                "print",
                "click.echo",
                "msgspec.json.encode",
            ):
                found.append(f"{path.name}:{node.lineno}: {ast.unparse(node.func)}")
    assert not found

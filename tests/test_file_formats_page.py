"""``docs/file-formats.md`` says what the code writes: boxes against structs, names against the files of a store.

The boxes are read by :func:`box`, and a reader made from nothing but them reads records, units and an index of Java's.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import xor
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.protocol import stored_message
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX
from rocketpy.protocol.stored_message import BLANK_SIZE_MIN, TOPIC_SIZE_MAX, store_timestamp_position
from rocketpy.store import layout
from rocketpy.store.index import file as index_file
from rocketpy.store.index.hash import hash_index_key
from rocketpy.store.queue.extension import END_BLANK_SIZE, CqExtUnit
from rocketpy.store.recovery import checkpoint
from rocketpy.testing.sim.disk import SimDisk
from tests.store.damaged import Snapshot, killed_store, look, open_again, run, stopped_store, write_store
from tests.store.golden_store import records, unpack_store
from tests.store.opened_store import send
from tests.store.parts import Place

PAGE_PATH = Path(__file__).resolve().parent.parent / "docs" / "file-formats.md"
PAGE = PAGE_PATH.read_text()
_BOX = re.compile(r"^```box (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EDGE = re.compile(r" +(\d+)? ?\+-+\+")
_FIELD = re.compile(r" +\| (\w+) +(i8|i16|i32|i64|bytes\[(\w+)\]) .*\|")
_FORMATS = {"i8": "b", "i16": "h", "i32": "i", "i64": "q"}


@attrs.frozen
class Field:
    """A row of a box."""

    name: str
    type: str
    position: int | None  # that the page says
    length: str = ""  # of bytes: a number, or the name of the field that holds it

    @property
    def format(self) -> str:
        """Its format character of ``struct``; of bytes, with their number."""
        return f"{self.length}s" if self.length else _FORMATS[self.type]


@attrs.frozen
class Box:
    """A drawing: fields in order, and where the last one ends, if the page says so."""

    fields: tuple[Field, ...]
    end: int | None

    @property
    def fixed(self) -> str:
        """The struct of the fields in front of the first one whose length another field holds."""
        formats = []
        for field in self.fields:
            if field.length and not field.length.isdigit():
                break
            formats.append(field.format)
        return ">" + "".join(formats)

    def read(self, content: bytes, begin: int = 0) -> dict[str, bytes | int]:
        """Read by the box alone."""
        values: dict[str, bytes | int] = {}
        position = begin
        for field in self.fields:
            if field.length:
                size = int(field.length) if field.length.isdigit() else values[field.length]
                assert isinstance(size, int)
                values[field.name] = content[position : position + size]
            else:
                size = struct.calcsize(field.format)
                (values[field.name],) = struct.unpack_from(">" + field.format, content, position)
            position += size
        values["end"] = position
        return values


def boxes() -> dict[str, Box]:
    """Every box of the page."""
    return {name: Box(*_rows(name, drawing)) for name, drawing in _BOX.findall(PAGE)}


def _rows(name: str, drawing: str) -> tuple[tuple[Field, ...], int | None]:
    fields: list[Field] = []
    position: int | None = None
    for line in drawing.splitlines():
        edge, field = _EDGE.fullmatch(line), _FIELD.fullmatch(line)
        assert edge or field, f"box {name}: cannot read {line!r}"
        assert len(line) == 75, f"box {name}: {line!r} is not as wide as the others"
        if edge:
            position = int(edge[1]) if edge[1] else None
        elif field:
            fields.append(Field(field[1], field[2], position, field[3] or ""))
    return tuple(fields), position


BOXES = boxes()


# ---- boxes and structs ----------------------------------------------------------------------------------------------

STRUCTS = {
    "record": stored_message.RECORD_HEAD,
    "blank": stored_message.TOTAL_AND_MAGIC,
    "unit": layout.UNIT,
    "ext-unit": layout.EXT_UNIT,
    "index-header": index_file.INDEX_HEADER,
    "index-slot": index_file.SLOT,
    "index-entry": index_file.ENTRY,
    "checkpoint": checkpoint.CHECKPOINT_NUMBERS,
}


def _one_by_one(format: str) -> list[str]:
    """The formats of single fields: ``2i8s`` is i, i, 8s."""
    found: list[str] = []
    for count, character in re.findall(r"(\d*)([a-z?])", format):
        found += [f"{count}s"] if character == "s" else [character] * int(count or 1)
    return found


def test_every_struct_has_a_box_and_every_box_a_struct() -> None:
    assert BOXES.keys() == STRUCTS.keys()


@pytest.mark.parametrize("name", STRUCTS)
def test_a_box_is_its_struct(name: str) -> None:
    """Number, order, widths and byte order of the fields."""
    assert _one_by_one(BOXES[name].fixed) == _one_by_one(STRUCTS[name].format)
    assert STRUCTS[name].format.startswith(">")


@pytest.mark.parametrize("name", STRUCTS)
def test_positions_of_a_box_add_up(name: str) -> None:
    box = BOXES[name]
    position = 0
    is_fixed = True
    for field in box.fields:
        assert field.position == (position if is_fixed else None), field
        if field.length and not field.length.isdigit():
            is_fixed = False
        else:
            position += struct.calcsize(">" + field.format)
    assert box.end == (position if is_fixed else None)


def _squeezed(name: str) -> str:
    """A name in the spelling that page and code share: ``_max_physic_offset`` and ``maxPhysOffset`` are one field."""
    squeezed = name.strip("_").removesuffix("_ms").replace("_", "").lower()
    return squeezed.replace("physic", "phys").replace("physal", "phys")


def _fields_of(owner: type) -> set[str]:
    """The fields of a class that are in its file."""
    return {_squeezed(each.name) for each in attrs.fields(owner) if each.init} - {"disk", "path"}


OF_CLASSES = {
    "index-header": _fields_of(index_file.IndexHeader),
    "checkpoint": _fields_of(checkpoint.StoreCheckpoint) - {"ends"} | _fields_of(checkpoint.DurableEnds) | {"check"},
    "ext-unit": _fields_of(CqExtUnit) | {"size", "bitmapsize"},
}
"""What the code calls the fields of a box, where it has a class for them."""


@pytest.mark.parametrize("name", OF_CLASSES)
def test_the_names_of_fields_are_those_of_the_code(name: str) -> None:
    assert {_squeezed(field.name) for field in BOXES[name].fields} == OF_CLASSES[name]


def test_the_table_of_address_families_is_the_structs() -> None:
    table = re.findall(r"^\| (0x\d\d) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    found = [(int(flag, 16), *map(int, rest)) for flag, *rest in table]
    made = []
    for number, head in enumerate(stored_message.RECORD_HEADS):
        flag = number << 4
        hosts = [int(each[:-1]) for each in _one_by_one(head.format) if each.endswith("s")]
        made.append((flag, hosts[0], store_timestamp_position(flag), hosts[1], head.size))
    assert found == made


def _hexadecimal(number: int) -> str:
    return f"0x{number:X}"


def test_the_numbers_that_the_page_names() -> None:
    for text in (
        _hexadecimal(stored_message.MESSAGE_MAGIC_CODE & 0xFFFF_FFFF),
        _hexadecimal(stored_message.BLANK_MAGIC_CODE & 0xFFFF_FFFF),
        f"at most {TOPIC_SIZE_MAX} ",
        f"at most {PROPERTIES_SIZE_MAX:,} ",
        f"{BLANK_SIZE_MIN} bytes\nafter it",
        "20 + bitMapSize                  |\n     2 +",
        f"0 to {layout.EXT_UNIT_SIZE_MAX - layout.EXT_UNIT.size:,} ",
        f"with {END_BLANK_SIZE} bytes to spare",
        f"(at most {layout.EXT_ADDRESS_MAX})",
        f"size {_hexadecimal(layout.PRE_BLANK_SIZE)}",
        _hexadecimal(checkpoint.CHECK_START),
        f"Up to {checkpoint.CHECKPOINT_SIZE} follow zeros",
        f"40 + {index_file.SLOT_SIZE} × `maxHashSlotNum` + {index_file.ENTRY_SIZE} × `maxIndexNum`",
    ):
        assert text in PAGE, text
    assert struct.pack(">h", -1) == layout.EXT_UNIT_END
    assert struct.pack(layout.UNIT.format, 0, layout.PRE_BLANK_SIZE, 0) == layout.PRE_BLANK_UNIT


# ---- a reader made from the page ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def java_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that a Java broker wrote and stopped in order."""
    return unpack_store("store-clean", tmp_path_factory.mktemp("java"))


def test_records_of_a_java_broker_can_be_read_by_the_page(java_store: Path) -> None:
    known = {record.physical_offset: record for record in records(java_store)}
    read = 0
    for path in sorted((java_store / "commitlog").iterdir()):
        content, position = path.read_bytes(), 0
        while position < len(content):
            head = BOXES["blank"].read(content, position)
            if head["magic"] != stored_message.MESSAGE_MAGIC_CODE:
                if head["magic"] == stored_message.BLANK_MAGIC_CODE:
                    assert head["totalSize"] == len(content) - position
                break
            found = BOXES["record"].read(content, position)
            record = known[int(path.name) + position]
            assert found["end"] == position + record.size == position + _number(found, "totalSize")
            assert found["physicalOffset"] == record.physical_offset
            assert found["queueOffset"] == record.queue_offset
            assert found["storeTimestamp"] == record.store_timestamp
            assert found["topic"] == record.topic.encode()
            assert found["properties"] == record.properties_text
            position += record.size
            read += 1
    assert read == len(known) > 0


def test_units_of_a_java_broker_can_be_read_by_the_page(java_store: Path) -> None:
    known = {record.physical_offset: record for record in records(java_store)}
    read = 0
    for path in (java_store / "consumequeue").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            for position in range(0, len(content), BOXES["unit"].end or 0):
                unit = BOXES["unit"].read(content, position)
                if not unit["size"]:
                    break
                record = known[_number(unit, "physicalOffset")]
                assert unit["size"] == record.size
                if record.topic == "SCHEDULE_TOPIC_XXXX":
                    assert _number(unit, "tagsCode") > record.store_timestamp  # the time of delivery
                else:
                    assert unit["tagsCode"] == record.tags_code
                assert record.queue_offset == (int(path.name) + position) // layout.UNIT_SIZE
                read += 1
    assert read > 0


def test_the_index_of_a_java_broker_can_be_read_by_the_page(java_store: Path) -> None:
    files = [path.read_bytes() for path in sorted((java_store / "index").iterdir())]
    wanted = {
        (hash_index_key(record.topic, key), record.physical_offset)
        for record in records(java_store)
        for key in record.keys.split()
    }
    found = {each for key_hash, _ in wanted for content in files for each in _entries(content, key_hash)}
    assert wanted
    assert wanted <= found


def _entries(content: bytes, key_hash: int) -> Iterator[tuple[int, int]]:
    """Yield hash and physical offset of the entries of a key's slot, newest first."""
    slot_count, entry_count = 500, 2000  # maxHashSlotNum and maxIndexNum of the golden stores
    assert len(content) == 40 + 4 * slot_count + 20 * entry_count
    indexed = _number(BOXES["index-header"].read(content), "indexCount")
    entry = _number(BOXES["index-slot"].read(content, 40 + key_hash % slot_count * 4), "entry")
    while 0 < entry < indexed:
        found = BOXES["index-entry"].read(content, 40 + slot_count * 4 + entry * 20)
        yield _number(found, "keyHash"), _number(found, "physicalOffset")
        entry = _number(found, "olderEntry")


def test_a_checkpoint_of_ours_can_be_read_by_the_page() -> None:
    content = killed_store().files["checkpoint"]
    found = BOXES["checkpoint"].read(content)
    numbers = [value for name, value in found.items() if name not in ("check", "end")]
    assert found["check"] == reduce(xor, [int(value) for value in numbers], 0x526F636B65745079)
    assert found["durableOffset"] == killed_store().durable_end
    assert content[_number(found, "end") :].strip(b"\0") == b""


def _number(values: Mapping[str, bytes | int], name: str) -> int:
    value = values[name]
    assert isinstance(value, int)
    return value


# ---- names ----------------------------------------------------------------------------------------------------------

_PLACEHOLDERS = {"<20 digits>": r"\d{20}", "<17 digits>": r"\d{17}", "<topic>": "[^/]+", "<queue id>": r"\d+"}


def patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    """The paths of both tables of names, as patterns."""
    section = PAGE.split("\n## Names\n", 1)[1].split("\n## ", 1)[0]
    for path in re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE):
        parts = re.split(r"(<[^>]+>)", path)
        yield (
            path,
            re.compile("".join(_PLACEHOLDERS.get(part, ".+" if "<" in part else re.escape(part)) for part in parts)),
        )


HELD_ELSEWHERE = {
    "<file>.bak",  # six seen where a write is interrupted: broker/metadata/test_stored_table.py and others
    "<file>.tmp",
    "<file>.bak.tmp",
    "commitlog.staged",
    "index.staged",
    "consumequeue/<topic>/<queue id>.staged",
    "consumequeue_ext/<topic>/<queue id>.staged",
    "kept-by-repair-<17 digits>/<name>",  # tests/store/inspection/repair/test_repair.py
    "config/<name>.json",  # of the broker, below
    "failed-sync",  # tests/store/recovery/test_marker_files.py
    "recovering",  # tests/store/recovery/test_marker_files.py
    "cut",  # three in tests/store/ha/test_tail_cut.py
    "cut.tmp",
    "diverged/<20 digits>-<time>/<20 digits>",
    "config/broker.properties",
    "config/namesrv.properties",
}
"""Names that none of these stores has, and the tests that do."""


def test_every_file_of_a_store_has_a_name_on_the_page() -> None:
    known = dict(patterns())
    stores: list[Snapshot] = [stopped_store(), killed_store()]
    names = {name for store in stores for name in store.files} | set(_files_of_unusual_stores())
    unknown = [name for name in sorted(names) if not any(each.fullmatch(name) for each in known.values())]
    assert unknown == []
    unseen = {path for path, pattern in known.items() if not any(map(pattern.fullmatch, names))}
    assert unseen <= HELD_ELSEWHERE, unseen


def _files_of_unusual_stores() -> dict[str, bytes]:
    """A store with an extension that was stopped twice, and has a deleted topic."""
    place = Place(SimDisk(), "/store")
    for _ in range(2):

        async def life() -> None:
            async with open_again(
                place, enable_consume_queue_ext=True, mapped_file_size_consume_queue_ext=400
            ) as store:
                send(store, b"body", "Deleted", 0)
                send(store, b"body", "Kept", 0)
                store.end_burst()
                store.delete_topic_queues("Deleted")
                await trio.sleep(1)

        run(life)
    return place.files(place.root)


def test_foreign_names_are_left_alone_as_the_page_says() -> None:
    place = Place(SimDisk(), "/store")
    foreign = {"commitlog/notes.txt": b"1", "index/notes.txt": b"2", "somebody/elses": b"3"}
    write_store(place, {**stopped_store().files, **foreign})
    look(place)
    found = place.files(place.root)
    assert {name: found.get(name) for name in foreign} == foreign


def test_tables_of_the_broker_are_on_the_page() -> None:
    source = "".join(path.read_text() for path in (PAGE_PATH.parent.parent / "rocketpy" / "broker").rglob("*.py"))
    used = set(re.findall(r'"(\w+\.(?:json|properties))"', source))
    shown = set(re.findall(r"^\| `config/(\w+\.(?:json|properties))` \|", PAGE.split("\n## Tables\n")[1], re.MULTILINE))
    assert shown == used

"""What is said of a file: each kind of note, and how much of it at most."""

from __future__ import annotations

from rocketpy.protocol.fastjson.file_notes import SHOWN_MAX, FileNotes


def test_a_file_that_is_understood_has_no_lines() -> None:
    notes = FileNotes()
    notes.unknown_keys(["a", "b"], ("a", "b"))
    assert (notes.warnings, notes.remarks) == ([], [])


def test_each_kind_has_its_line() -> None:
    notes = FileNotes()
    notes.repeated_key("perm")
    notes.unknown_keys(["offsetTable", "x", 5], ("offsetTable",))
    notes.unknown_keys(["y"], (), "T")
    notes.value("T.perm", 77, "0 to 7", "5 counts")
    notes.later_key("T.attributes")
    assert notes.warnings == [
        "'perm' comes twice in one object, the last one counts",
        "unknown keys, which are ignored and not kept when the file is written: 'x', '5', 'T.y'",
        "T.perm: expected 0 to 7, found 77; 5 counts",
    ]
    assert notes.remarks == [
        "settings of a later RocketMQ, which do not count and are not kept when the file is written: 'T.attributes'"
    ]


def test_lines_are_bounded_in_number_and_length_and_count_the_rest() -> None:
    notes = FileNotes()
    for number in range(1000):
        notes.repeated_key(f"{number}" * 10_000)
        notes.unknown_key(f"{number}" * 10_000)
        notes.value(f"{number}" * 10_000, "v" * 10_000, "a number", "0 counts")
        notes.later_key(f"{number}" * 10_000)
    assert len(notes.warnings) == SHOWN_MAX + 1 + SHOWN_MAX + 1
    assert max(map(len, notes.warnings + notes.remarks)) < 3000
    assert notes.warnings[-1] == "and 990 more values that are not as expected"
    assert [line for line in notes.warnings + notes.remarks if line.endswith("and 990 more")] != []


def test_lines_go_to_a_logger_with_the_path_of_the_file() -> None:
    said: list[tuple[str, str]] = []
    notes = FileNotes()
    notes.unknown_key("x")
    notes.later_key("attributes")
    notes.write(
        "/config/topics.json",
        lambda text, *fields: said.append(("WARNING", text % fields)),
        lambda text, *fields: said.append(("INFO", text % fields)),
    )
    assert [(level, line[:30]) for level, line in said] == [
        ("WARNING", "/config/topics.json: unknown k"),
        ("INFO", "/config/topics.json: settings "),
    ]

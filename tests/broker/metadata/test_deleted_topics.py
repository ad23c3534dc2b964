"""The table of deleted topics, and its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.broker.metadata import deleted_topics
from rocketpy.errors import StartError
from rocketpy.protocol import fastjson
from rocketpy.store.ha.log_mark import LogMark
from tests.broker.tables_of_a_broker import make_tables

DIGEST = "0123456789abcdef" * 4


async def test_deletions_come_back_in_their_order(tmp_path: Path) -> None:
    deleted = make_tables(tmp_path).deleted_topics
    deleted.add("T", LogMark(374, 187, DIGEST))
    deleted.add("U", LogMark())
    deleted.add("T", LogMark(561, 187, DIGEST))
    await deleted.stored.persist()
    again = make_tables(tmp_path).deleted_topics
    again.load()
    assert list(again) == list(deleted) == [("U", LogMark()), ("T", LogMark(561, 187, DIGEST))]
    assert (len(again), "T" in again, "V" in again) == (2, True, False)
    assert (again.mark_of("T"), again.mark_of("V")) == (LogMark(561, 187, DIGEST), None)


def test_beyond_the_bound_the_oldest_deletion_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleted_topics, "DELETED_TOPICS_MAX", 3)
    deleted = make_tables(tmp_path).deleted_topics
    for number in range(4):
        deleted.add(f"T{number}", LogMark(100 + number, 100, DIGEST))
    deleted.unfinished.add("T1")
    deleted.add("T1", LogMark(200, 100, DIGEST))
    assert [topic for topic, _ in deleted] == ["T2", "T3", "T1"]
    assert set(deleted.expired(102)) == {"T2"}
    deleted.drop("T1")
    assert ([topic for topic, _ in deleted], deleted.unfinished) == (["T2", "T3"], set())


def test_records_before_the_mark_were_deleted(tmp_path: Path) -> None:
    deleted = make_tables(tmp_path).deleted_topics
    assert not deleted.has_record("T", 0)
    deleted.add("T", LogMark())  # it is being deleted
    assert deleted.has_record("T", 186)
    deleted.add("T", LogMark(374, 187, DIGEST))
    assert [deleted.has_record("T", offset) for offset in (0, 187, 373, 374, 561)] == [True, True, True, False, False]
    assert not deleted.has_record("U", 0)


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_the_file_is_the_text_of_its_content(tmp_path: Path, count: int) -> None:
    deleted = make_tables(tmp_path).deleted_topics
    for number in range(count + 1):
        deleted.add(f'T{number} "\u00e9\\', LogMark(100 + number, 100, DIGEST))
    deleted.drop('T0 "\u00e9\\')
    await deleted.stored.persist()
    for _ in range(2):
        written = (tmp_path / "deletedTopics.json").read_text()
        assert written == fastjson.dumps(
            {"deletedTopics": {topic: mark.as_json() for topic, mark in deleted}}, pretty=True
        )
        deleted = make_tables(tmp_path).deleted_topics
        deleted.load()
        deleted.stored.changed()
        await deleted.stored.persist()
    assert len(deleted) == count


async def test_a_deletion_does_not_encode_those_before_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each deletion writes the table: with all of them encoded, deleting is slower with each topic that has gone."""
    encoded: list[str] = []

    def noting(value: object, *, pretty: bool = False) -> str:
        encoded.append(dumps(value, pretty=pretty))
        return encoded[-1]

    dumps = fastjson.dumps
    deleted = make_tables(tmp_path).deleted_topics
    for number in range(100):
        deleted.add(f"T{number}", LogMark(100 + number, 100, DIGEST))
    await deleted.stored.persist()
    monkeypatch.setattr(fastjson, "dumps", noting)
    deleted.add("another", LogMark(300, 100, DIGEST))
    await deleted.stored.persist()
    assert "T99" in (tmp_path / "deletedTopics.json").read_text()
    assert "T99" not in "".join(encoded)


@pytest.mark.parametrize("text", ["{}", '{"deletedTopics":[]}', '{"deletedTopics":{"T":{"offset":1}}}', "x"])
def test_a_file_of_something_else_fails_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "deletedTopics.json").write_text(text)
    with pytest.raises(StartError, match=r"deletedTopics\.json and its \.bak cannot be read"):
        make_tables(tmp_path).deleted_topics.load()

"""The readers of store directories: what Java recorded, what a query is given, and what it is told."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql.datasource import DataSourceReader, GreaterThanOrEqual, InputPartition
from pyspark.sql.types import StructType

from rocketpy.errors import SettingsError, StoreError
from rocketpy.spark.files.byte_ranges import ByteRange
from rocketpy.spark.files.problems import PROBLEMS_SCHEMA
from rocketpy.spark.files.reader import open_store_reader, store_schema
from rocketpy.spark.files.settings import BROKER_TOPICS
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse
from rocketpy.spark.schema import SPARK_SCHEMA, spark_schema
from rocketpy.store.layout import UNIT, UNIT_SIZE
from tests.patience import PATIENCE_SECONDS
from tests.spark.files.built_store import BuiltStore, Spec, build_store
from tests.store.golden_store import expected, unpack_store

STORES = ["store-clean", "store-crash", "store-torn", "store-ipv6", "store-ext", "store-multi", "store-empty"]
HEAD = 88


def golden_store(name: str, directory: Path) -> tuple[Path, list[dict[str, object]]]:
    """Unpack a store that Java wrote; return it with what Java's own reader says of each record."""
    unpack_store(name, directory)
    [commit_log] = directory.rglob("commitlog")
    return commit_log.parent, expected(name).get("record", [])


def open_reader(path: Path, schema: StructType | None = None, **options: str) -> DataSourceReader:
    values = parse({"path": str(path), **options}, Mode.FILES)
    return open_store_reader(values, store_schema(values) if schema is None else schema)


def rows(reader: DataSourceReader) -> list[dict[str, object]]:
    """What a query would be given, through the processes that it would go through."""
    travelled = pickle.loads(pickle.dumps(reader))
    partitions = pickle.loads(pickle.dumps(list(reader.partitions())))
    return [row for each in partitions for batch in travelled.read(each) for row in batch.to_pylist()]


def offsets(found: list[dict[str, object]]) -> list[object]:
    return [row["physical_offset"] for row in found]


@pytest.fixture
def store(tmp_path: Path) -> BuiltStore:
    specs = [Spec(20, topic="TU"[number % 2], keys=f"k{number % 5}") for number in range(40)]
    return build_store(tmp_path / "store", specs)


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize(("read_units", "partitions"), [("never", 1), ("never", 7), ("always", 7)])
def test_every_record_of_a_java_store_is_read_as_java_reads_it(
    name: str, read_units: str, partitions: int, tmp_path: Path
) -> None:
    path, records = golden_store(name, tmp_path)
    options = {
        "minPartitions": str(partitions),
        "readUnits": read_units,
        "decompress": "false",
        "includeSystemTopics": "true",
    }
    found = rows(open_reader(path, **options))
    assert offsets(found) == [record["offset"] for record in records]
    for row, record in zip(found, records, strict=True):
        assert (row["topic"], row["queue_id"], row["queue_offset"]) == (
            record["topic"],
            record["queueId"],
            record["queueOffset"],
        )
        assert (row["message_id"], row["sys_flag"], row["flag"]) == (
            record["msgId"],
            record["sysFlag"],
            record["flag"],
        )
        assert (row["stored_size"], row["body_size"]) == (record["size"], record["bodyLength"])
        assert dict(row["properties"]) == record["properties"]  # type: ignore[call-overload]
        if "[" not in str(row["born_host"]):  # Java writes an IPv6 address with all its zeros
            assert "/" + str(row["born_host"]) == record["bornHost"]


def test_topics_of_the_broker_itself_are_read_where_they_are_asked_for(tmp_path: Path) -> None:
    """A delayed or transactional message is in one of them a second time; retries and dead letters are a group's."""
    path, records = golden_store("store-clean", tmp_path)
    everything = {str(record["topic"]) for record in records}
    found = {str(row["topic"]) for row in rows(open_reader(path))}
    assert found == everything - BROKER_TOPICS
    assert {topic[:5] for topic in found} >= {"%RETR", "%DLQ%"}
    assert everything & BROKER_TOPICS >= {"SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"}
    named = rows(open_reader(path, topic="SCHEDULE_TOPIC_XXXX"))
    assert len(named) == sum(record["topic"] == "SCHEDULE_TOPIC_XXXX" for record in records)


def test_a_user_s_schema_chooses_columns_and_their_order(store: BuiltStore) -> None:
    found = rows(open_reader(store.root, spark_schema(["queue_offset", "topic", "_file", "_offset"])))
    assert list(found[0]) == ["queue_offset", "topic", "_file", "_offset"]
    assert {row["_file"] for row in found} == {str(store.log_file(0)), str(store.log_file(1))}
    with pytest.raises(SettingsError, match="unknown column 'topik'"):
        open_reader(store.root, StructType().add("topik", "string"))


def test_only_what_the_options_want_is_given(store: BuiltStore) -> None:
    assert offsets(rows(open_reader(store.root, topic="U"))) == store.offsets[1::2]
    assert offsets(rows(open_reader(store.root, keys="k3"))) == store.offsets[3::5]
    times = {"startTimestamp": "1700000010000", "endTimestamp": "1700000012000"}
    assert offsets(rows(open_reader(store.root, **times))) == store.offsets[10:12]


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("is_timed", [False, True])
def test_a_topic_read_through_its_queues_is_the_topic_read_from_the_log(
    name: str, is_timed: bool, tmp_path: Path
) -> None:
    path, records = golden_store(name, tmp_path)
    times = sorted(int(str(record["storeTimestamp"])) for record in records)
    options = {"minPartitions": "5", "decompress": "false"}
    if times and is_timed:
        options |= {"startTimestamp": str(times[len(times) // 4]), "endTimestamp": str(times[-1])}
    for topic in {str(record["topic"]) for record in records}:
        through = rows(open_reader(path, topic=topic, readUnits="always", **options))
        straight = rows(open_reader(path, topic=topic, readUnits="never", **options))
        assert sorted(offsets(through)) == offsets(straight)  # type: ignore[type-var]
        assert {row["topic"] for row in through} <= {topic}


def test_a_rare_topic_is_read_through_its_queue_and_a_common_one_is_not(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec(topic="rare" if number % 20 == 7 else "T") for number in range(200)])
    rare = open_reader(store.root, topic="rare")
    assert [type(each.value) for each in rare.partitions()] == [tuple]
    assert offsets(rows(rare)) == store.offsets[7::20]
    assert tuple not in {type(each.value) for each in open_reader(store.root, topic="T").partitions()}
    assert tuple not in {
        type(each.value) for each in open_reader(store.root, topic="rare", readUnits="never").partitions()
    }
    assert len(rows(open_reader(store.root, topic="rare,nowhere", readUnits="always"))) == 10


def test_a_unit_that_leads_to_a_record_of_another_queue_gives_no_row(tmp_path: Path) -> None:
    store = build_store(tmp_path / "store", [Spec(queue_id=number % 2) for number in range(20)])
    path = store.root / "consumequeue" / "T" / "0" / f"{0:020d}"
    units = bytearray(path.read_bytes())
    offset, content = store.records[5]  # of queue 1; the unit was that of record 4
    units[2 * UNIT_SIZE : 3 * UNIT_SIZE] = UNIT.pack(offset, len(content), 0)
    path.write_bytes(units)
    found = offsets(rows(open_reader(store.root, topic="T", readUnits="always")))
    assert sorted(found) == [each for number, each in enumerate(store.offsets) if number != 4]  # type: ignore[type-var]


def test_records_that_no_queue_knows_yet_are_read_from_the_log(tmp_path: Path) -> None:
    """A broker dispatches after it has answered; a killed one may not have."""
    specs = [Spec(topic="TU"[number % 2]) for number in range(60)]
    store = build_store(tmp_path / "store", specs)
    for topic in "TU":
        path = store.root / "consumequeue" / topic / "0" / f"{400:020d}"  # units 20 to 29
        path.write_bytes(path.read_bytes()[:100].ljust(200, b"\0"))
    reader = open_reader(store.root, topic="T", readUnits="always")
    assert {type(each.value) for each in reader.partitions()} == {tuple, ByteRange}
    assert offsets(rows(reader)) == store.offsets[::2]


def test_damage_follows_the_mode(store: BuiltStore) -> None:
    store.spoil(store.offsets[7] + HEAD, b"\0")
    store.spoil(store.offsets[9], b"\0\0\0\0")
    with pytest.raises(StoreError, match=rf"damaged.*\({store.log_file(0)} at {store.offsets[7]}\)"):
        rows(open_reader(store.root))
    permissive = rows(open_reader(store.root, mode="permissive"))
    assert offsets(permissive) == [each for each in store.offsets if each != store.offsets[9]]
    dropped = rows(open_reader(store.root, mode="dropMalformed"))
    assert offsets(dropped) == [each for number, each in enumerate(store.offsets) if number not in (7, 9)]


@pytest.mark.parametrize("read_units", ["always", "never"])
def test_a_body_that_is_not_read_is_not_checked_but_the_rows_of_drop_malformed_depend_on_no_columns(
    store: BuiltStore, read_units: str
) -> None:
    """The checksum covers the body alone."""
    store.spoil(store.offsets[8] + HEAD, b"\0")
    options = {"topic": "T", "readUnits": read_units}
    topic = store.offsets[::2]
    for names in (["physical_offset", "topic"], ["physical_offset", "body_size"], []):
        schema = spark_schema(names)
        dropped = rows(open_reader(store.root, schema, mode="dropMalformed", **options))
        assert offsets(dropped) == [each for each in topic if each != store.offsets[8]]
        assert offsets(rows(open_reader(store.root, schema, mode="permissive", **options))) == topic
        assert offsets(rows(open_reader(store.root, schema, checkCrc="false", **options))) == topic
        if "topic" in names:
            assert offsets(rows(open_reader(store.root, schema, **options))) == topic
        for checked in [{"checkCrc": "true"}, *([] if "topic" in names else [{}])]:
            with pytest.raises(StoreError, match=rf"at {store.offsets[8]}\)"):
                rows(open_reader(store.root, schema, **checked, **options))


@pytest.mark.parametrize("partitions", ["1", "9"])
def test_damaged_places_are_rows_of_the_view_problems(store: BuiltStore, partitions: str) -> None:
    """Whatever is wanted of the messages."""
    size = len(store.records[0][1])
    store.spoil(store.offsets[7] + HEAD, b"\0")
    store.spoil(store.offsets[9], b"\0\0\0\0")
    end = store.offsets[-1] + size
    store.spoil(end, store.records[-1][1][:60])
    options = {"minPartitions": partitions, "topic": "U", "checkCrc": "false"}
    found = rows(open_reader(store.root, view="problems", **options))
    file = str(store.log_file(0))
    assert sorted((row["file"], row["position"], row["size"]) for row in found) == [  # type: ignore[type-var]
        (file, store.offsets[7], size),
        (file, store.offsets[9], size),
        (str(store.log_file(1)), end - 4096, 2 * 4096 - end),
    ]
    assert rows(open_reader(store.root, view="problems", mode="failFast")) == found or partitions != "1"


def test_a_sound_store_has_no_problems(store: BuiltStore) -> None:
    assert rows(open_reader(store.root, view="problems")) == []
    assert store_schema(parse({"path": "/s", "view": "problems"}, Mode.FILES)) == PROBLEMS_SCHEMA
    with pytest.raises(SettingsError, match="view problems: expected no schema"):
        open_reader(store.root, SPARK_SCHEMA, view="problems")


def test_missing_files_follow_the_mode(store: BuiltStore) -> None:
    path = store.log_file(0)
    os.truncate(path, 3000)
    with pytest.raises(StoreError, match="1096 bytes are missing before the next file"):
        rows(open_reader(store.root))
    found = offsets(rows(open_reader(store.root, mode="permissive")))
    assert found == [each for each in store.offsets if each + len(store.records[0][1]) <= 3000 or each >= 4096]
    sizes = [(row["position"], row["what"]) for row in rows(open_reader(store.root, view="problems"))]
    assert (3000, "1096 bytes are missing before the next file") in sizes


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("options", [{}, {"topic": "U", "readUnits": "always"}], ids=["the log", "a queue"])
def test_a_file_that_is_cleaned_away_is_an_error_unless_losses_are_allowed(
    store: BuiltStore, options: dict[str, str], allowed: bool
) -> None:
    reader = open_reader(store.root, failOnDataLoss=str(not allowed), **options)
    planned = reader.partitions()
    store.log_file(0).unlink()
    if not allowed:
        with pytest.raises(StoreError, match="deleted after the read was planned"):
            [list(reader.read(each)) for each in planned]
        return
    own = store.offsets[1::2] if options else store.offsets
    left = sum(batch.num_rows for each in planned for batch in reader.read(each))
    assert left == sum(offset >= 4096 for offset in own) > 0


def test_the_partition_that_spark_makes_of_an_empty_plan_holds_nothing(store: BuiltStore) -> None:
    assert list(open_reader(store.root).read(InputPartition(None))) == []


def claim_compression(store: BuiltStore, number: int) -> None:
    """Let a record say that its body is compressed."""
    offset, content = store.records[number]
    store.spoil(offset + 39, bytes([content[39] | 1]))


def test_a_body_that_does_not_decompress_follows_the_mode(tmp_path: Path) -> None:
    """Its record is sound: the checksum is that of the body as it is stored."""
    store = build_store(tmp_path / "store", [Spec()] * 5)
    bad = (1, 3)
    for number in bad:
        claim_compression(store, number)
    words = rf"decompress=false .*\({store.log_file(0)} at {store.offsets[1]}\)"
    with pytest.raises(StoreError, match=words):
        rows(open_reader(store.root))
    permissive = rows(open_reader(store.root, mode="permissive"))
    assert [row["body"] for row in permissive] == [b"x" * 20] * 5
    assert [row["sys_flag"] for row in permissive] == [0, 1, 0, 1, 0]
    for through in ({}, {"topic": "T", "readUnits": "always"}):
        dropped = rows(open_reader(store.root, mode="dropMalformed", **through))
        assert offsets(dropped) == [store.offsets[number] for number in (0, 2, 4)]
    for options in ({"decompress": "false"}, {"columns": "topic"}):
        assert len(rows(open_reader(store.root, **options))) == 5
        assert len(rows(open_reader(store.root, mode="dropMalformed", **options))) == 5
    found = rows(open_reader(store.root, view="problems"))
    size = len(store.records[0][1])
    assert [(row["position"], row["size"]) for row in found] == [(store.offsets[number], size) for number in bad]
    assert "whole ZLIB stream" in str(found[0]["what"])


def test_a_damaged_body_that_is_compressed_is_a_row_of_permissive_as_it_is_stored(tmp_path: Path) -> None:
    """Its checksum is wrong, and it does not decompress: one problem."""
    store = build_store(tmp_path / "store", [Spec()] * 3)
    claim_compression(store, 1)
    store.spoil(store.offsets[1] + HEAD, b"\x87")
    permissive = rows(open_reader(store.root, mode="permissive"))
    assert [row["body"] for row in permissive] == [b"x" * 20, b"\x87" + b"x" * 19, b"x" * 20]
    assert len(rows(open_reader(store.root, mode="dropMalformed"))) == 2
    assert [row["position"] for row in rows(open_reader(store.root, view="problems"))] == [store.offsets[1]]


def test_filters_of_a_query_narrow_what_the_options_ask_for(store: BuiltStore) -> None:
    reader = open_reader(store.root, topic="T")
    whole = offsets(rows(reader))
    condition = GreaterThanOrEqual(("physical_offset",), whole[5])
    assert list(reader.pushFilters([condition])) == []
    assert offsets(rows(reader)) == whole[5:]


def test_columns_and_the_type_of_the_body_are_what_the_options_say(store: BuiltStore) -> None:
    [row, *_] = rows(open_reader(store.root, columns="_offset, body ,topic,_file", bodyAs="string"))
    assert list(row) == ["_offset", "body", "topic", "_file"]
    assert (row["_offset"], type(row["body"]), row["topic"]) == (0, str, "T")
    assert str(row["_file"]).startswith(str(store.root))
    with pytest.raises(SettingsError, match="did you mean topic"):
        open_reader(store.root, columns="tpoic")


def test_a_read_imports_no_pandas(tmp_path: Path) -> None:
    """It costs a worker as much time as 200,000 messages, and pyarrow imports it for a call of ``pa.array``."""
    store = build_store(tmp_path / "store", [Spec(), Spec(keys="k"), Spec(ipv6=True)])
    program = (
        "import sys; from rocketpy.spark.readers import open_reader; from rocketpy.spark.schema import SPARK_SCHEMA; "
        "reader = open_reader({'path': sys.argv[1]}, SPARK_SCHEMA); "
        "found = sum(batch.num_rows for each in reader.partitions() for batch in reader.read(each)); "
        "print(found, 'pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(store.root)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout == f"{len(store.records)} False\n"

"""``rocketpy store`` on directories: what it prints, and how it ends."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest

from rocketpy.cli.store import FOREVER, commit_log_paths, parse_offsets, parse_time
from rocketpy.store.disk.os_disk import OsDisk
from tests.cli.conftest import Ended, run
from tests.store import broken_stores
from tests.store.broken_stores import BrokenStore, unpack
from tests.store.golden_store import expected


@pytest.fixture
def store(tmp_path: Path) -> BrokenStore:
    return unpack("store-clean", tmp_path)


def objects(ended: Ended) -> list[dict[str, object]]:
    return [json.loads(line) for line in ended.lines]


# ---- verify ---------------------------------------------------------------------------------------------------------


async def test_verify_of_a_store_without_faults(store: BrokenStore) -> None:
    ended = await run("store", "verify", str(store.root))
    assert (ended.status, ended.errors) == (0, "")
    assert ended.lines == ["925 records from 0 to 266015, 925 units in 14 queues, 2044 in the index: 0 findings"]


async def test_verify_says_where_what_and_what_would_happen(store: BrokenStore) -> None:
    broken_stores.remove_log_file(store)
    ended = await run("store", "verify", str(store.root))
    assert ended.status == 1
    assert ended.lines[:5] == [
        f"error: {store.root}/commitlog",
        "    expected a valid record at offset 65536 of the log",
        "    found    65536 bytes without a valid record (a file is missing), then valid records",
        "    a start  refuses the store",
        "    a repair fills it with placeholders, or truncates the log there with --cut",
    ]
    as_json = await run("store", "verify", "--json", str(store.root))
    assert as_json.status == 1
    (finding,) = objects(as_json)
    assert (finding["severity"], finding["position"]) == ("error", None)
    assert "1 finding" in as_json.errors


async def test_notices_are_no_reason_for_status_1(tmp_path: Path) -> None:
    store = unpack("store-torn", tmp_path)
    ended = await run("store", "verify", str(store.root))
    assert ended.status == 0
    assert ended.output.startswith(b"notice: ")


@pytest.mark.parametrize("verb", ["verify", "repair", "export"])
async def test_what_is_no_directory_is_wrong_use(verb: str, tmp_path: Path) -> None:
    ended = await run("store", verb, str(tmp_path / "nowhere"))
    assert ended.status == 2
    assert "does not exist" in ended.errors


async def test_the_log_may_lie_elsewhere(store: BrokenStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (store.root / "commitlog").rename(elsewhere)
    assert (await run("store", "verify", str(store.root))).status == 1
    assert (await run("store", "verify", str(store.root), "--commitlog", str(elsewhere))).status == 0


# ---- diverged -------------------------------------------------------------------------------------------------------


async def test_what_a_slave_has_cut_off_is_listed_and_can_be_read(store: BrokenStore) -> None:
    ended = await run("store", "diverged", str(store.root))
    assert (ended.status, ended.output, ended.errors) == (0, b"", "")
    kept = store.root / "diverged" / "00000000000000065536-20231114T221320123Z"
    kept.mkdir(parents=True)
    for name in ("00000000000000065536", "00000000000000131072"):
        (kept / name).write_bytes((store.root / "commitlog" / name).read_bytes())
    (store.root / "diverged" / "notes").mkdir()
    ended = await run("store", "diverged", str(store.root))
    (listed,) = ended.lines
    as_json = await run("store", "diverged", "-J", str(store.root))
    (fields,) = objects(as_json)
    count = fields["record_count"]
    assert listed.startswith(f"{kept}: {count} records from 65536 to 196608, stored from 20")
    assert (fields["begin_offset"], fields["end_offset"], fields["path"]) == (65536, 196608, str(kept))
    exported = await run("store", "export", str(store.root), "--commitlog", str(kept), "--through-log")
    assert (exported.status, len(exported.lines)) == (0, count)
    dumped = await run("store", "dump", str(kept))
    assert sum(each.startswith("record ") for each in dumped.lines) == count


# ---- repair ---------------------------------------------------------------------------------------------------------


async def test_repair_writes_nothing_without_yes(store: BrokenStore) -> None:
    broken_stores.flip_body(store)
    before = store.log_file(0).read_bytes()
    names = sorted(path.name for path in store.root.iterdir())
    ended = await run("store", "repair", str(store.root))
    assert ended.status == 1
    assert ended.lines[0].startswith(f"1. {store.log_file(0)} from ")
    assert ended.lines[-1] == "nothing was written; --yes carries out these steps"
    assert store.log_file(0).read_bytes() == before
    assert sorted(path.name for path in store.root.iterdir()) == names


async def test_repair_with_yes_says_where_it_keeps_what_it_changes(store: BrokenStore) -> None:
    broken_stores.flip_body(store)
    ended = await run("store", "repair", "--yes", "--json", str(store.root))
    assert ended.status == 0, ended
    (step,) = objects(ended)
    assert step["path"] == str(store.log_file(0))
    kept = ended.errors.split(" are in ")[1].strip()
    assert kept.startswith(f"{store.root}/kept-by-repair-")
    assert len(store.kept()) == 1
    assert (await run("store", "verify", str(store.root))).status == 0
    again = await run("store", "repair", "--yes", str(store.root))
    assert (again.status, again.lines) == (0, ["nothing needs repair"])


async def test_repair_cuts_only_when_asked(store: BrokenStore) -> None:
    broken_stores.garbage_in_log(store)
    filled, cut = [await run("store", "repair", *option, str(store.root)) for option in ((), ("--cut",))]
    assert b"placeholders" in filled.output
    assert b"truncates the log at offset 70462: 195553 bytes" in cut.output


# ---- a broker that runs ---------------------------------------------------------------------------------------------


async def test_a_locked_store_is_read_with_a_warning_and_not_repaired(store: BrokenStore) -> None:
    broken_stores.flip_body(store)
    lock = OsDisk().lock(str(store.root / "lock"))
    warning = f"rocketpy: a broker has {store.root} open"
    verified = await run("store", "verify", str(store.root))
    assert verified.status == 1
    assert verified.errors.startswith(warning)
    exported = await run("store", "export", "-t", "GoldA", str(store.root))
    assert exported.status == 0
    assert exported.errors.startswith(warning)
    for options in ((), ("--yes",)):
        repaired = await run("store", "repair", *options, str(store.root))
        assert (repaired.status, repaired.errors) == (1, f"{warning}: stop it first\n")
    lock.release()


# ---- export ---------------------------------------------------------------------------------------------------------


async def test_export_of_everything_is_in_log_order(store: BrokenStore, tmp_path: Path) -> None:
    output = tmp_path / "all.jsonl"
    ended = await run("store", "export", "-o", str(output), "--base64", str(store.root))
    assert (ended.status, ended.output) == (0, b"")
    found = [json.loads(line) for line in output.read_text().splitlines()]
    java = expected("store-clean")["record"]
    assert [each["physical_offset"] for each in found] == [each["offset"] for each in java]
    body = base64.b64decode(found[0]["body_base64"])
    assert hashlib.sha256(body).hexdigest() == java[0].get("plainSha256", java[0]["bodySha256"])


async def test_export_chooses(store: BrokenStore) -> None:
    one = objects(await run("store", "export", "-t", "GoldA", "-q", "1", "--offsets", "3:4", str(store.root)))
    assert [(each["queue_id"], each["queue_offset"]) for each in one] == [(1, 3)]
    key = str(one[0]["msg_id"])
    by_key = objects(await run("store", "export", "-k", key, str(store.root)))
    assert one[0] in by_key
    time = str(one[0]["store_timestamp"])
    by_time = objects(await run("store", "export", "--begin", time, "--end", time, str(store.root)))
    assert one[0] in by_time
    assert {each["store_timestamp"] for each in by_time} == {one[0]["store_timestamp"]}


async def test_export_passes_over_damage_and_says_so(store: BrokenStore) -> None:
    record = store.record()
    broken_stores.flip_body(store)
    for options, text in (
        ((), f"skipped {record.size} bytes from {record.physical_offset} of the log on"),
        (("-t", "GoldB"), f"skipped queue offset {record.queue_offset} of 'GoldB', queue 0"),
    ):
        ended = await run("store", "export", *options, str(store.root))
        assert ended.status == 1
        assert text in ended.errors
        found = {each["physical_offset"] for each in objects(ended)}
        assert record.physical_offset not in found
        assert store.records()[0].physical_offset in found or options


# ---- options --------------------------------------------------------------------------------------------------------


def test_options() -> None:
    assert parse_offsets("") == (0, FOREVER)
    assert parse_offsets("3:7") == (3, 7)
    assert parse_offsets(":7") == (0, 7)
    assert parse_time("", "--begin", 5) == 5
    assert parse_time("1700000000000", "--begin", 0) == 1_700_000_000_000
    assert parse_time("2023-11-14T22:13:20Z", "--begin", 0) == 1_700_000_000_000
    assert commit_log_paths(["a,b/", "c"]) == ("a", "b", "c")
    assert commit_log_paths(None) == ()


@pytest.mark.parametrize("option", [("--offsets", "3"), ("--offsets", "a:b"), ("--begin", "soon"), ("--queue", "-1")])
async def test_options_that_make_no_sense(option: tuple[str, str], store: BrokenStore) -> None:
    ended = await run("store", "export", *option, str(store.root))
    assert ended.status == 2

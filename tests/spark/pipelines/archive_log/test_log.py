"""The log of an archive: a run is in it whole or not at all, wherever it dies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import pytest

from rocketpy.errors import SettingsError, StartError, StoreError
from rocketpy.spark.pipelines.archive_log.file_system import LocalFileSystem
from rocketpy.spark.pipelines.archive_log.log import ArchiveLog
from rocketpy.spark.pipelines.archive_log.ranges import OffsetRange
from rocketpy.spark.pipelines.archive_log.record import ArchivedFile, RunRecord, encode_record


class Died(Exception):
    """The process ended here."""


class DyingFileSystem(LocalFileSystem):
    """Lets so many changes happen; the process dies instead of the next one."""

    def __init__(self, changes: int) -> None:
        self.left = changes

    def _change(self) -> None:
        if not self.left:
            raise Died
        self.left -= 1

    def create(self, path: str, content: bytes) -> None:
        self._change()
        super().create(path, content)

    def move(self, source: str, target: str) -> None:
        self._change()
        super().move(source, target)

    def remove(self, path: str) -> None:
        if Path(path).exists():
            self._change()
        super().remove(path)


def stage(log: ArchiveLog, run: int, *names: str, replaced: tuple[str, ...] = ()) -> RunRecord:
    """Write files as Spark does, and return the record that would commit them."""
    run_id = f"id{run}"
    for name in names:
        path = Path(log.staging(run_id), name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    Path(log.staging(run_id), "_SUCCESS").touch()
    Path(log.staging(run_id), ".part.parquet.crc").touch()
    assert log.staged_files(run_id) == sorted(names)
    ranges = () if replaced else (OffsetRange("T", "b", 0, run * 10, run * 10 + 10),)
    return RunRecord(
        run=run,
        id=run_id,
        time="2026-01-31T12:00:00+00:00",
        ranges=ranges,
        files=tuple(ArchivedFile(n, 1) for n in names),
        replaced=replaced,
    )


def content(log: ArchiveLog) -> dict[str, str]:
    """Return what a reader of the archive finds: each file with its text."""
    return {
        path: Path(root, path).read_text() for root, paths in log.paths(log.state().files).items() for path in paths
    }


def published(root: Path) -> set[str]:
    """Return what a reader of the plain directories finds."""
    return {str(path.relative_to(root)) for path in root.glob("topic=*/*.parquet")}


FIRST = ("topic=T/a.parquet", "topic=T/b.parquet")
SECOND = ("topic=T/c.parquet", "topic=U/d.parquet")


def append(log: ArchiveLog) -> None:
    with log.opened_for_writing() as state:
        log.commit(stage(log, state.last_run + 1, *SECOND))


def compact(log: ArchiveLog) -> None:
    with log.opened_for_writing() as state:
        log.commit(stage(log, state.last_run + 1, *SECOND, replaced=FIRST))


@pytest.mark.parametrize(("run", "after"), [(append, {*FIRST, *SECOND}), (compact, set(SECOND))])
def test_a_run_that_dies_at_any_change_is_there_whole_or_not_at_all(
    tmp_path: Path, run: Callable[[ArchiveLog], None], after: set[str]
) -> None:
    outcomes = []
    for changes in range(20):
        root = tmp_path / str(changes)
        sound = ArchiveLog(str(root), files=LocalFileSystem())
        with sound.opened_for_writing():
            sound.commit(stage(sound, 1, *FIRST))
        files = DyingFileSystem(changes)
        try:
            run(ArchiveLog(str(root), files=files))
        except Died:
            found = set(content(sound))
            assert found == set(FIRST) or found == after
            assert content(sound) == {name: name for name in found}
            if found == set(FIRST):
                assert published(root) == found  # not even a reader of the directories sees the other files
            with sound.opened_for_writing() as state:
                assert state.last_run == (1 if found == set(FIRST) else 2)
            assert published(root) == set(content(sound)) == found
            assert not any(Path(sound.staging("id2")).parent.iterdir())
            outcomes.append(found == after)
        else:
            assert set(content(sound)) == published(root) == after
            break
    assert not outcomes[0]
    assert outcomes[-1]
    assert files.left == 0


def test_of_two_runs_with_one_number_the_second_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    """Where no lock keeps them apart."""
    log = ArchiveLog(str(tmp_path), files=LocalFileSystem())
    one, other = stage(log, 1, *FIRST), attrs.evolve(stage(log, 2, *SECOND), run=1)
    log.commit(one)
    with pytest.raises(StartError, match="has committed run 1: start this one again"):
        log.commit(other)
    assert set(content(log)) == published(tmp_path) == set(FIRST)
    assert not Path(log.staging("id2")).exists()


def test_staged_files_of_a_run_that_may_be_alive_stay(tmp_path: Path) -> None:
    class Shared(LocalFileSystem):
        def is_abandoned(self, directory: str) -> bool:
            return False

    log = ArchiveLog(str(tmp_path), files=Shared())
    stage(log, 1, *FIRST)
    with log.opened_for_writing():
        pass
    assert log.staged_files("id1") == list(FIRST)
    assert content(log) == {}


def test_the_state_after_an_earlier_run_and_at_an_earlier_time(tmp_path: Path) -> None:
    log = ArchiveLog(str(tmp_path), files=LocalFileSystem())
    with pytest.raises(SettingsError, match="expected a run of the archive, which has no run, found 1"):
        log.state(1)
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for run in (1, 2, 3):
        staged = stage(log, run, f"topic=T/{run}.parquet")
        log.commit(attrs.evolve(staged, time=(noon + timedelta(hours=run)).isoformat()))
    assert [log.state(run).last_run for run in (1, 2, 3)] == [1, 2, 3]
    assert log.state(2).ranges == (OffsetRange("T", "b", 0, 10, 30),)
    assert log.paths(log.state(2).files) == {str(tmp_path): ["topic=T/1.parquet", "topic=T/2.parquet"]}
    times = [noon, noon + timedelta(hours=2), noon + timedelta(hours=2.5), noon + timedelta(days=1)]
    assert [log.state(time).last_run for time in times] == [0, 2, 2, 3]
    for run in (0, 4):
        with pytest.raises(SettingsError, match=f"which has 1 to 3, found {run}"):
            log.state(run)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    log, other = (ArchiveLog(str(tmp_path), files=LocalFileSystem()) for _ in range(2))
    refused = pytest.raises(StartError, match=r"another run is writing this archive: it has locked .*/_archive/lock")
    with log.opened_for_writing(), refused, other.opened_for_writing():
        pass
    with other.opened_for_writing() as state:
        assert state.last_run == 0


def test_a_record_under_the_name_of_another_run_is_refused(tmp_path: Path) -> None:
    """The next run would take a number that is taken, or skip one."""
    log = ArchiveLog(str(tmp_path), files=LocalFileSystem())
    runs = tmp_path / "_archive" / "runs"
    runs.mkdir(parents=True)
    record = RunRecord(run=2, id="x", time="2026-01-31T12:00:00+00:00")
    (runs / "00000000000000000001.json").write_bytes(encode_record(record))
    with pytest.raises(StoreError, match=r"that its name says, found run 2 \(.*00000000000000000001\.json\)"):
        log.state()

"""A run of an archive is killed, with its JVM: the next run completes the archive, each message once.

Every step of the commit is cut in ``archive_log/test_log.py``; here Spark writes, and the processes are real.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.spark.pipelines.archive import archive, read_archive
from rocketpy.spark.pipelines.sources import store_messages
from tests.patience import PATIENCE_SECONDS
from tests.spark.files.test_reader import golden_store
from tests.spark.pipelines.messages import places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.blackbox]

PROGRAM = Path(__file__).with_name("archiving_program.py")
ROUNDS = {"dev": 1, "ci": 1, "deep": 20}[os.environ.get("ROCKETPY_TIER", "dev")]
RUNS = 40
RUN_SECONDS = 2.0  # about; the kill comes within one of them


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_after_a_kill_the_next_run_completes_the_archive(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    store, _ = golden_store("store-clean", tmp_path)
    root = tmp_path / "archive"
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(store), str(root), str(RUNS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": os.environ["PYTHONPATH"]},
        start_new_session=True,
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline().startswith("archived ")
        time.sleep(random.Random(seed).uniform(0, RUN_SECONDS))
        assert program.poll() is None, "it ended before it was killed"
    finally:
        os.killpg(program.pid, signal.SIGKILL)  # Java is in its group
        program.communicate(timeout=PATIENCE_SECONDS)
    committed = places(read_archive(spark, str(root)))
    assert len(set(committed)) == len(committed) > 0
    messages = store_messages(spark, str(store), "b")
    summary = archive(messages, str(root))
    assert summary.written + len(committed) == summary.read
    assert places(read_archive(spark, str(root))) == places(messages)
    published = {str(path) for path in root.glob("topic=*/date=*/*.parquet")}
    assert spark.read.parquet(str(root)).count() == summary.read
    assert published
    assert list((root / "_archive" / "staging").iterdir()) == []

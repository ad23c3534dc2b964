"""What every pipeline command says when it cannot run."""

from __future__ import annotations

import subprocess
import sys

from typer.testing import CliRunner

from rocketpy.cli.__main__ import app
from tests.cli.conftest import environment


def test_without_pyspark_the_extra_is_named() -> None:
    code = "import sys; sys.modules['pyspark'] = None; from rocketpy.cli.__main__ import app; app()"
    command = [sys.executable, "-c", code, "pipeline", "archive", "/a", "-n", "127.0.0.1:1", "-t", "T"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "rocketpy: pipelines run on Spark, and pyspark is not installed: pip install 'DIR[spark]', where DIR is a "
        "checkout of rocketpy\n"
    )


def test_a_setting_of_spark_needs_a_value() -> None:
    arguments = ["pipeline", "archive", "/a", "-n", "127.0.0.1:1", "-t", "T", "--conf", "spark.x"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "'spark.x', expected KEY=VALUE" in result.stderr

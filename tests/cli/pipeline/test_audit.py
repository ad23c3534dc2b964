"""``rocketpy pipeline audit``: wrong use before Spark starts; the result of a store that has more than notices."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rocketpy.cli.__main__ import app


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Missing argument 'STORE'"),
        (["/s", "--archive", "/a"], "an archive has several brokers"),
        (["/s", "--at", "yesterday"], "Invalid value for '--at'"),
    ],
)
def test_wrong_use_is_status_2_before_spark_starts(arguments: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["pipeline", "audit", *arguments])
    assert result.exit_code == 2
    assert complaint in result.stderr

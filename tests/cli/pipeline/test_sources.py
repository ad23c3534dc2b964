"""Which source the options name, and what is said when they name none."""

from __future__ import annotations

import pytest
import typer

from rocketpy.cli.pipeline.sources import Source, format_options


@pytest.mark.parametrize(
    ("name_server", "store", "broker_name", "topics", "hint"),
    [
        ("", "", "", ["T"], "--namesrv"),
        ("127.0.0.1:1", "", "", None, "--topic"),
        ("", "/store", "", None, "--broker-name"),
        ("127.0.0.1:1", "/store", "", ["T"], "--broker-name"),
    ],
)
def test_a_source_that_is_not_whole_is_refused(
    name_server: str, store: str, broker_name: str, topics: list[str] | None, hint: str
) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        Source(namesrv=name_server, store=store, broker_name=broker_name, topic=topics).check()
    assert refused.value.param_hint == hint


@pytest.mark.parametrize(
    ("name_server", "store", "broker_name", "topics"),
    [("127.0.0.1:1", "", "", ["T"]), ("", "/store", "b", None), ("127.0.0.1:1", "/store", "b", ["T"])],
)
def test_a_source_that_is_whole_is_accepted(
    name_server: str, store: str, broker_name: str, topics: list[str] | None
) -> None:
    Source(namesrv=name_server, store=store, broker_name=broker_name, topic=topics).check()


def test_options_of_the_format_have_a_name_and_a_value() -> None:
    assert format_options(None) == {}
    assert format_options(["minPartitions=4", "secretKey=a=b", "x="]) == {
        "minPartitions": "4",
        "secretKey": "a=b",
        "x": "",
    }
    for text in ("minPartitions", "=4"):
        with pytest.raises(typer.BadParameter, match="expected NAME=VALUE"):
            format_options([text])

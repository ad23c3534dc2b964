"""Mistakes in options are explained in one sentence; what is right becomes values."""

from __future__ import annotations

import pytest

from rocketpy.errors import SettingsError
from rocketpy.spark.options.connection import NAME_SERVER, SECRET_KEY
from rocketpy.spark.options.live import CONSUMER_GROUP
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import check_read_options, parse, read_mode
from rocketpy.spark.options.reading import MIN_PARTITIONS, TOPIC


def mistake(options: dict[str, str], mode: Mode = Mode.LIVE) -> str:
    with pytest.raises(SettingsError) as caught:
        parse(options, mode)
    return str(caught.value)


def test_names_in_any_case_and_those_of_rocketmq_spark() -> None:
    values = parse({"NAMESERVER.addr": "a:1; b:2", "TOPIC": "T1, T2", "group": " g "}, Mode.LIVE)
    assert values[NAME_SERVER] == ("a:1", "b:2")
    assert values[TOPIC] == ("T1", "T2")
    assert values[CONSUMER_GROUP] == "g"
    assert values[MIN_PARTITIONS] == 1


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    """Spark hands names over in lower case; the answer has the documented spelling."""
    assert mistake({"minpartition": "2"}).endswith("the nearest is minPartitions")
    assert mistake({"nameSever": "a:1"}) == "unknown option 'nameSever' of format rocketmq, the nearest is nameServer"


def test_a_name_like_no_other_is_answered_with_all_that_may_be_given() -> None:
    words = mistake({"xyzzy": "1"}, Mode.FILES)
    assert "expected one of path, " in words
    assert "nameServer" not in words


def test_an_option_of_another_mode_is_named_as_such() -> None:
    assert mistake({"path": "/s"}, Mode.STREAM) == (
        "option path is for reads of files (path), and this is a stream (readStream)"
    )
    assert "and this reads files (path)" in mistake({"consumerGroup": "g"}, Mode.FILES)
    assert "and this writes" in mistake({"minPartitions": "1"}, Mode.SINK)


def test_a_name_of_another_connector_is_answered_with_its_successor() -> None:
    assert "nameServer names the cluster" in mistake({"KAFKA.bootstrap.servers": "a:1"})


@pytest.mark.parametrize("name", ["option.nameserver", "owner"])
def test_a_table_of_the_catalog_is_answered_with_a_view(name: str) -> None:
    """Spark adds these names when such a table is made, and gives it no options when it is read."""
    words = "catalog tables of Python sources no options.* CREATE TEMPORARY VIEW name USING rocketmq OPTIONS"
    for options in ({name: "x"}, {"nameServer": "a:1", "topic": "T", name: "x"}, {}):
        with pytest.raises(SettingsError, match=words):
            check_read_options(options)


def test_several_directories_are_answered_with_a_union() -> None:
    with pytest.raises(SettingsError, match=r"a read is of one store directory.*unionByName"):
        check_read_options({"paths": '["/a", "/b"]'})


def test_two_names_of_one_option_are_a_mistake() -> None:
    assert mistake({"group": "a", "consumergroup": "b"}) == (
        "options group and consumerGroup are the same: expected one of them"
    )


def test_a_wrong_value_is_named_with_what_was_expected_and_a_secret_is_not_shown() -> None:
    assert mistake({"minpartitions": "two"}) == (
        "option minPartitions: expected a whole number from 1 to 100000, found 'two'"
    )
    assert "found that" in mistake({SECRET_KEY.name: ""})


def test_files_or_a_live_cluster() -> None:
    assert read_mode({"path": "/s"}) is Mode.FILES
    assert read_mode({"NameServer": "a:1"}) is Mode.LIVE
    for options, words in (
        ({"path": "/s", "nameserver": "a:1"}, "found both options"),
        ({"path": " "}, "found neither"),
        ({"nameSever": "a:1"}, "the nearest is nameServer"),
    ):
        with pytest.raises(SettingsError, match=words):
            read_mode(options)


def test_a_read_of_either_sort_is_checked_before_it_is_known_which_one_it_is() -> None:
    for options in ({"nameServer": "a:1"}, {"path": "/store"}, {"nameServer": "a:1", "maxOffsetsPerTrigger": "5"}):
        check_read_options(options)
    for options, words in [
        ({"nameServer": "a:1", "maxOffsetPerTrigger": "5"}, "the nearest is maxOffsetsPerTrigger"),
        ({"nameServer": "a:1", "maxoffsetspertrigger": "0"}, "option maxOffsetsPerTrigger: expected a whole number"),
        ({"path": "/store", "maxOffsetsPerTrigger": "5"}, "option path is for reads of files"),
        ({}, "found neither"),
    ]:
        with pytest.raises(SettingsError, match=words):
            check_read_options(options)

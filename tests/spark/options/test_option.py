"""Options as typed keys of their values."""

from __future__ import annotations

import pickle

import pytest

from rocketpy.spark.options.kinds import TEXT, whole_number
from rocketpy.spark.options.option import Mode, Option, OptionValues, modes

SIZE: Option[int] = Option("size", whole_number(1, 9), 3, modes(Mode.LIVE), "Size.", aliases=("bulk",))
WORD: Option[str | None] = Option("word", TEXT, None, modes(Mode.SINK), "Word.", secret=True)


def test_a_value_is_what_was_given_or_the_default() -> None:
    assert OptionValues(Mode.LIVE, {})[SIZE] == 3
    values = OptionValues(Mode.LIVE, {"size": 5})
    assert (values[SIZE], values.is_given(SIZE)) == (5, True)
    assert not OptionValues(Mode.LIVE, {}).is_given(SIZE)


def test_all_its_names() -> None:
    assert SIZE.names == ("size", "bulk")


def test_a_value_of_another_mode_is_never_read() -> None:
    with pytest.raises(AssertionError, match="size is no option of sink"):
        OptionValues(Mode.SINK, {})[SIZE]


def test_values_travel_to_executors_and_do_not_show_themselves() -> None:
    values = OptionValues(Mode.SINK, {"word": "hidden"})
    assert pickle.loads(pickle.dumps(values)) == values
    assert "hidden" not in repr(values)
    assert "word" in repr(values)

"""Shared methods of values: the same as those that attrs writes for a class."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil

import attrs
import pytest

import rocketpy.protocol.bodies
import rocketpy.protocol.headers
from rocketpy.protocol.headers.offset import UpdateConsumerOffsetRequestHeader
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen
class Shared(ValueMethods):
    number: int
    secret: str = attrs.field(default="", repr=False)
    cached: int = attrs.field(default=0, eq=False)
    inner: object = None


@attrs.frozen
class Below(Shared):
    more: int = 0


@attrs.frozen
class Own(ValueMethods):
    number: int

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "own"


def test_text_is_that_of_attrs() -> None:
    @attrs.frozen
    class Local(ValueMethods):
        _hidden: int

    @attrs.frozen
    class Nothing(ValueMethods):
        pass

    assert repr(Shared(1, "key", inner=Shared(2))) == (
        "Shared(number=1, cached=0, inner=Shared(number=2, cached=0, inner=None))"
    )
    assert repr(Local(3)) == "Local(_hidden=3)"
    assert repr(Nothing()) == "Nothing()"


def test_equal_are_values_of_one_class_with_equal_attributes() -> None:
    assert Shared(1, "a", 2, "b") == Shared(1, "a", 3, "b")
    assert hash(Shared(1, "a", 2, "b")) == hash(Shared(1, "a", 3, "b"))
    different: list[object] = [Shared(2, "a"), Shared(1, "b"), Shared(1, "a", inner=1), Below(1, "a"), (1, "a"), None]
    for other in different:
        assert Shared(1, "a") != other
        assert other != Shared(1, "a")
    assert Below(1) == Below(1)
    assert Below(1) != Below(1, more=1)
    assert "more=0" in repr(Below(1))


def test_a_value_with_an_attribute_without_hash_has_none() -> None:
    with pytest.raises(TypeError):
        hash(Shared(1, inner=[]))


def test_methods_of_the_class_itself_stay() -> None:
    assert (Own(1) == Own(2), hash(Own(1)), repr(Own(1))) == (True, 7, "own")


def test_values_stay_frozen_without_dict_and_are_copied_and_pickled() -> None:
    value = Shared(1, "a", 2, (3,))
    assert not hasattr(value, "__dict__")
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        value.number = 2  # type: ignore[misc]
    for same in (copy.deepcopy(value), pickle.loads(pickle.dumps(value)), attrs.evolve(value)):
        assert same == value
        assert attrs.astuple(same) == attrs.astuple(value)
    header = UpdateConsumerOffsetRequestHeader(consumer_group="g", topic="t", queue_id=1, commit_offset=2)
    assert pickle.loads(pickle.dumps(header)) == header
    assert repr(header).startswith("UpdateConsumerOffsetRequestHeader(consumer_group='g', topic='t', ")


def test_headers_and_bodies_share_the_methods() -> None:
    """A class without the base costs each start of a program a compilation of its own."""
    alone = []
    for package in (rocketpy.protocol.headers, rocketpy.protocol.bodies):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            values = vars(importlib.import_module(module.name)).values()
            classes = [each for each in values if isinstance(each, type) and each.__module__ == module.name]
            alone += [each for each in classes if attrs.has(each) and not issubclass(each, ValueMethods)]
    assert [each.__name__ for each in alone] == ["_CompressedReader"]

"""Methods with a second form, which takes no task."""

from __future__ import annotations

import inspect
import types

import pytest

from rocketpy.client import BatchingProducer, PendingSend, Producer
from rocketpy.client.begun import Done, beginning_of
from tests.client.shells.shell_cases import Role


def test_a_marked_method_has_a_bound_second_form_and_others_have_none() -> None:
    role = Role()
    begin = beginning_of(role.later)
    assert begin is not None
    begun = begin(3, add=1)
    assert begun is not None
    assert begun.is_done
    assert begun.result() == 4
    assert beginning_of(role.double) is None


def test_a_call_that_had_not_to_wait_is_done() -> None:
    done = Done(7)
    assert done.result() == 7
    done.abandon()
    with pytest.raises(AssertionError):
        done.on_done(print)


def test_both_forms_of_each_method_take_the_same_parameters() -> None:
    marked = 0
    for owner in (Producer, BatchingProducer, PendingSend):
        for name, member in vars(owner).items():
            method = types.MethodType(member, object()) if inspect.iscoroutinefunction(member) else None
            begin = None if method is None else beginning_of(method)
            if method is not None and begin is not None:
                marked += 1
                assert inspect.signature(begin).parameters == inspect.signature(method).parameters, name
    assert marked >= 5

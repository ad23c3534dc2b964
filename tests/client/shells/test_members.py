"""Kinds of members."""

from __future__ import annotations

import pytest

from rocketpy.client import AdminClient, Client, Message, MessageStream, Producer, SendResult
from rocketpy.client.shells.members import Kind, handler_parameters, has_waiting_members, kind_of
from tests.client.shells.shell_cases import Pending, Role


@pytest.mark.parametrize(
    ("owner", "name", "kind"),
    [
        (Role, "double", Kind.CALL),
        (Role, "opened", Kind.OPEN),
        (Role, "count", Kind.ITERATE),
        (Role, "plain", Kind.PLAIN),
        (Role, "name", Kind.VALUE),
        (Client, "producer", Kind.OPEN),
        (Client, "admin", Kind.PLAIN),
        (Client, "client_id", Kind.VALUE),
        (Producer, "send", Kind.CALL),
        (AdminClient, "topics", Kind.VALUE),
    ],
)
def test_a_member_is_of_a_kind(owner: type, name: str, kind: Kind) -> None:
    assert kind_of(owner, name) is kind


def test_what_waits_needs_a_shell_and_values_do_not() -> None:
    waiting = (Role, Pending, Client, Producer, AdminClient, MessageStream)
    assert [each for each in waiting if not has_waiting_members(each)] == []
    assert [each for each in (Message, SendResult, str, list, type(None)) if has_waiting_members(each)] == []


def test_the_parameters_of_handlers_are_found_by_their_types() -> None:
    assert handler_parameters(Role.run) == {0, "handler"}
    assert handler_parameters(Role.double) == set()

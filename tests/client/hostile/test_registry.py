"""What peers and programs may do wrong, by role of the client, and the test of what happens then.

Rule for all of them: an error of ``rocketpy.errors`` or a documented retry, in a bounded time and memory, and nothing
is acknowledged that was not handled.
"""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[3]

SENDERS = ("producer", "async", "batching", "transaction", "request-reply")
MEMBERS = ("lite pull", "concurrent", "orderly")
PULLERS = ("pull", *MEMBERS)
ROLES = (*SENDERS, *PULLERS, "admin")


@attrs.frozen
class Row:
    """The tests of one kind of bad input: for all roles, or by role; ``none`` says of the others why there is none."""

    tests: dict[str | tuple[str, ...], str]
    none: str = ""

    def test_of(self, role: str) -> str | None:
        for roles, test in self.tests.items():
            if role == roles or (isinstance(roles, tuple) and role in roles):
                return test
        return None


def _in(name: str) -> str:
    """A test of this folder."""
    return f"tests/client/hostile/{name}"


def _at(path: str, name: str) -> str:
    """A test of the client elsewhere."""
    return f"tests/client/{path}::{name}"


ANSWERS = _in("test_answers.py::test_a_spoiled_answer_is_a_result_or_an_error_of_ours")
CALLS = _in("test_roles.py::test_a_call_ends_with_an_error_of_ours_in_its_time")
GROUPS = _at(
    "hostile/test_roles.py", "test_a_member_of_a_group_goes_on_and_acknowledges_nothing_that_it_has_not_handled"
)
PULL = _in("test_pulls.py::test_a_pull_is_a_protocol_error")
GROUP_PULLS = _in("test_pulls.py::test_a_group_pulls_again_and_consumes_the_other_queues_meanwhile")
BLOCKED = _in("test_handlers.py::test_a_blocked_event_loop_fails_what_was_under_way_and_nothing_after")
POLL_BLOCKED = _at(
    "hostile/test_handlers.py", "test_a_blocked_event_loop_and_a_clock_that_is_set_lose_no_message_of_a_poll"
)
CLOCK_SET = _in("test_handlers.py::test_a_wall_clock_that_is_set_changes_nothing")
FROM_BROKERS = _in("test_broker_requests.py::test_garbage_is_answered_with_an_error_or_not_at_all")
TRANSACTIONS = "tests/client/producer/test_transaction.py"

BY_ROLE: dict[str | tuple[str, ...], str] = {(*SENDERS, "pull", "admin"): CALLS, MEMBERS: GROUPS}
RECORDS: dict[str | tuple[str, ...], str] = {"pull": PULL, MEMBERS: GROUP_PULLS, "admin": ANSWERS}
NO_RECORDS = "no records come back"
NO_HANDLER = "the program is called by nothing"

REGISTRY = {
    "a nameserver's address that is none": Row(
        {
            ("producer", "admin"): _in("test_addresses.py::test_a_nameserver_that_is_none_is_a_connect_error"),
        },
        none="routes are looked up by the same code",
    ),
    "a nameserver that cannot be reached": Row(
        {
            ROLES: _in("test_addresses.py::test_a_nameserver_that_cannot_be_reached_costs_the_time_of_the_request"),
        }
    ),
    "a broker's address that is none": Row(
        {
            ("producer", "pull", "concurrent"): _in(
                "test_addresses.py::test_a_broker_that_has_no_address_does_not_stop_work_with_the_others"
            ),
            "admin": ANSWERS,
        },
        none="addresses are connected to by the same code",
    ),
    "a nameserver that answers garbage": Row(
        {
            ("producer", "request-reply", "pull", "concurrent", "admin"): _in(
                "test_name_servers.py::test_a_route_that_is_garbage_is_a_protocol_error_for_each_role"
            ),
        },
        none="routes are looked up by the same code",
    ),
    "a nameserver whose frames are garbage, late or not there": Row(
        {
            ("producer", "admin"): _in(
                "test_name_servers.py::test_an_answer_that_is_none_fails_in_the_time_of_the_request"
            ),
        },
        none="routes are looked up by the same code",
    ),
    "a broker that vanishes in the middle of an answer": Row(BY_ROLE),
    "a broker that trickles bytes": Row(BY_ROLE),
    "a broker whose frames are garbage": Row(BY_ROLE),
    "a response code that does not exist": Row(BY_ROLE),
    "a broker that is silent": Row(
        {
            SENDERS[:3]: _in("test_sends.py::test_a_broker_that_does_not_answer_costs_the_time_of_a_send_and_no_more"),
            "request-reply": _in("test_sends.py::test_a_request_ends_in_its_time_whatever_does_not_answer"),
            ("transaction", "pull", "lite pull", "admin"): ANSWERS,
            ("concurrent", "orderly"): _in(
                "test_traps.py::test_a_broker_that_does_not_tell_offsets_stalls_no_queue_of_another"
            ),
        }
    ),
    "an answer to another request, or the same twice": Row(
        {
            "async": _in("test_sends.py::test_a_second_answer_and_one_for_another_request_are_dropped"),
            tuple(role for role in ROLES if role != "async"): ANSWERS,
        }
    ),
    "an answer without a field, or with one that is no number": Row(
        {
            SENDERS[:3]: _in("test_sends.py::test_an_answer_that_does_not_say_where_is_a_protocol_error"),
            "transaction": _in("test_sends.py::test_a_message_id_that_is_none_loses_only_the_verdict"),
            "request-reply": ANSWERS,
            "pull": PULL,
            MEMBERS: GROUP_PULLS,
            "admin": ANSWERS,
        }
    ),
    "a body that does not decompress": Row(
        {
            **RECORDS,
            "request-reply": "tests/client/test_replies.py"
            "::test_a_reply_that_is_not_compressed_as_it_says_is_passed_on_as_it_came",
        },
        none=NO_RECORDS,
    ),
    "a body that decompresses to more than is allowed": Row(
        {
            PULLERS: _in("test_pulls.py::test_what_decompresses_to_too_much_is_taken_in_parts"),
            "request-reply": _in(
                "test_broker_requests.py::test_a_compressed_reply_that_is_a_bomb_is_passed_on_as_it_came"
            ),
            "admin": "tests/protocol/test_compression.py::test_a_bomb_is_refused_before_it_has_grown",
        },
        none=NO_RECORDS,
    ),
    "a record with a wrong checksum": Row(RECORDS, none=NO_RECORDS),
    "messages of another queue or offset than asked for": Row(RECORDS, none=NO_RECORDS),
    "an offset that goes back or beyond the end": Row(
        {"pull": PULL, MEMBERS: GROUP_PULLS, "admin": ANSWERS}, none=NO_RECORDS
    ),
    "offsets in circles": Row(
        {
            "pull": _in("test_pulls.py::test_a_stream_does_not_follow_a_broker_in_circles"),
            MEMBERS: _in("test_pulls.py::test_an_offset_that_never_advances_is_not_asked_for_without_a_pause"),
        },
        none="offsets are not followed",
    ),
    "a lowest offset above the highest": Row(
        {
            MEMBERS: _in("test_roles.py::test_ends_of_a_queue_that_contradict_each_other_change_nothing"),
            ("pull", "admin"): ANSWERS,
        },
        none=NO_RECORDS,
    ),
    "queues that do not exist": Row(
        {
            SENDERS[:3]: _in("test_sends.py::test_an_answer_that_does_not_say_where_is_a_protocol_error"),
            ("transaction", "request-reply", "admin"): ANSWERS,
            "pull": PULL,
            MEMBERS: GROUP_PULLS,
        }
    ),
    "numbers in bodies that are far too large": Row(
        {ROLES: _in("test_answers.py::test_no_body_costs_more_memory_than_frames_may_have")}
    ),
    "a handler, check or selector that raises": Row(
        {
            "concurrent": _at(
                "consumer/test_concurrently.py", "test_a_handler_that_raises_has_failed_and_others_go_on"
            ),
            "orderly": _in(
                "test_handlers.py::test_an_orderly_handler_that_raises_is_called_again_with_the_same_message"
            ),
            "transaction": f"{TRANSACTIONS}::test_a_local_transaction_that_fails_is_unknow_and_says_why",
            (
                "producer",
                "async",
            ): _at("producer/test_delivery.py", "test_a_selector_that_fails_or_returns_nothing_is_a_client_error"),
        },
        none=NO_HANDLER,
    ),
    "a handler that returns nonsense": Row(
        {
            "concurrent": _in("test_handlers.py::test_nonsense_of_a_concurrent_handler_is_no_acknowledgement"),
            "orderly": _in("test_handlers.py::test_nonsense_of_an_orderly_handler_is_no_acknowledgement"),
            "transaction": _in("test_handlers.py::test_nonsense_of_a_local_transaction_or_a_check_is_unknown"),
        },
        none=NO_HANDLER,
    ),
    "a handler that never ends": Row(
        {
            "concurrent": _in(
                "test_handlers.py::test_a_handler_that_never_ends_keeps_one_task_and_its_messages_come_again"
            ),
            "orderly": _in("test_handlers.py::test_an_orderly_handler_that_never_ends_stops_its_queue_only"),
            "transaction": _in("test_broker_requests.py::test_a_flood_runs_a_bounded_number_of_tasks"),
            "lite pull": "tests/client/consumer/lite_pull/test_consumer.py"
            "::test_a_program_that_does_not_poll_bounds_what_is_pulled",
        },
        none=NO_HANDLER,
    ),
    "an event loop that is blocked": Row(
        {("producer", "concurrent", "orderly"): BLOCKED, "lite pull": POLL_BLOCKED},
        none="requests are made, and time out, by the same code",
    ),
    "a wall clock that is set": Row(
        {("producer", "orderly"): CLOCK_SET, "lite pull": POLL_BLOCKED},
        none="no deadline is of the wall clock",
    ),
    "requests of brokers that are garbage": Row(
        {("transaction", "request-reply", *MEMBERS): FROM_BROKERS},
        none="brokers ask nothing of it",
    ),
    "a flood of requests of brokers": Row(
        {
            "transaction": _in("test_broker_requests.py::test_a_flood_runs_a_bounded_number_of_tasks"),
            MEMBERS: _in("test_broker_requests.py::test_a_flood_of_notifications_rebalances_ten_times_a_second"),
            "request-reply": "tests/client/test_replies.py::test_a_reply_that_nothing_waits_for_is_only_logged",
        },
        none="brokers ask nothing of it",
    ),
}


@pytest.mark.parametrize("kind", REGISTRY)
def test_each_role_has_a_test_that_exists_or_a_reason(kind: str) -> None:
    row = REGISTRY[kind]
    for role in ROLES:
        test = row.test_of(role)
        if test is None:
            assert row.none, f"{role}: neither a test nor a reason"
            continue
        path, name = test.split("::")
        assert f"def {name}(" in (ROOT / path).read_text(), test
    named = {role for roles in row.tests for role in ([roles] if isinstance(roles, str) else roles)}
    assert named <= set(ROLES)

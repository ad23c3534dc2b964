"""The classes of the client whose objects outlive what they keep: each is taken through a second life by tests.

A queue is given up and comes back, a broker restarts, a subscription is replaced, a run of handlers ends and another
begins. What an object keeps of it must end with it. Faults of that kind are seen by three sorts of tests, which this
list names for each class that keeps a table:

- *ends meanwhile*: what the table is about ends while something is awaited;
- *comes again*: it ends, and comes back;
- *cancelled here*: the call that was about to change the table is cancelled.

A table that is filled once, within one call, has no second life; such classes are listed with that reason.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

TESTS = Path(__file__).parent
CLIENT = TESTS.parents[1] / "rocketpy" / "client"
TABLES = ("dict", "set", "list", "deque", "OrderedDict", "defaultdict", "Counter")


@attrs.frozen
class Lives:
    """Tests of a class by the sort of life that they show, each ``file::test`` or the reason why there is none."""

    ends_meanwhile: str
    comes_again: str
    cancelled_here: str


SYNC = "no call of it awaits while it changes the table"

LIVES: Mapping[str, Lives] = {
    "AssignedQueues": Lives(
        "consumer/group/test_assigned_queues.py::test_a_handler_that_ends_while_its_member_leaves_counts",
        "consumer/group/test_assigned_queues.py::test_a_paused_queue_that_comes_again_is_read",
        "consumer/group/test_assigned_queues.py::test_leaving_gives_back_what_was_being_locked",
    ),
    "AssignmentChanges": Lives(
        "consumer/group/test_assignment_changes.py::test_a_listener_that_takes_long_sees_the_latest_state_of_each_topic",
        "consumer/group/test_assignment_changes.py::test_topics_that_come_and_go_have_a_bound",
        "consumer/group/test_assignment_changes.py::test_a_listener_that_is_cancelled_misses_nothing",
    ),
    "BalancedQueues": Lives(
        "consumer/test_pull_consumer_member.py::test_waiting_for_queues_ends_with_the_consumer",
        "consumer/test_pull_consumer_member.py::test_pull_tasks_read_each_queue_from_where_the_group_is",
        "consumer/test_pull_consumer_member.py::test_wherever_it_is_cancelled_its_group_is_left_and_what_was_noted_is_stored",
    ),
    "BatchingProducer": Lives(
        "producer/test_batching.py::test_after_the_producer_has_gone_messages_fail",
        "producer/test_batching.py::test_a_batch_leaves_when_its_time_is_over",
        "producer/test_batching.py::test_a_send_cancelled_anywhere_loses_no_other_message_and_no_room",
    ),
    "BrokerHealth": Lives(
        SYNC,
        "producer/test_broker_health.py::test_a_slow_broker_comes_back_after_its_time",
        SYNC,
    ),
    "BrokerRequests": Lives(
        SYNC,
        "test_broker_requests.py::test_what_is_answered_for_a_group_that_is_not_here",
        SYNC,
    ),
    "CallTasks": Lives(
        "shells/test_loop_call.py::test_the_end_of_the_nursery_ends_calls_that_run_that_wait_and_that_come_later",
        "shells/test_loop_call.py::test_one_task_runs_one_call_after_the_other_and_several_run_at_once",
        "shells/test_loop_call.py::test_a_call_that_is_abandoned_as_it_completes_keeps_its_result",
    ),
    "ChosenQueues": Lives(
        SYNC,
        "consumer/lite_pull/test_consumer.py::test_a_seek_is_forgotten_when_its_queue_comes_again",
        SYNC,
    ),
    "ClientStates": Lives(
        SYNC,
        "test_states.py::test_a_lost_connection_of_a_broker_is_an_event_and_so_is_the_next_answer",
        SYNC,
    ),
    "ConcurrentConsumption": Lives(
        "consumer/test_concurrently.py::test_results_of_a_queue_that_is_given_up_do_not_count",
        "consumer/test_concurrently.py::test_a_handler_that_is_cancelled_returns_its_batch",
        "consumer/test_concurrently.py::test_a_handler_that_is_cancelled_returns_its_batch",
    ),
    "ConsumeHooks": Lives(
        "consumer/test_consume_hooks.py::test_a_batch_in_the_hand_of_a_program_ends_with_the_consumer",
        "consumer/test_consume_hooks.py::test_batches_of_a_loop_are_shown",
        SYNC,
    ),
    "ConsumeMessageTraceHook": Lives(
        SYNC,
        "trace/test_trace_hooks.py::test_a_batch_has_records_of_its_beginning_and_its_end",
        SYNC,
    ),
    "ConsumerStats": Lives(
        SYNC,
        "consumer/test_consumer_stats.py::test_a_topic_without_a_count_for_an_hour_is_forgotten",
        SYNC,
    ),
    "Continuity": Lives(
        "consumer/queue/test_continuity.py::test_those_who_ask_at_the_same_time_share_an_answer",
        "consumer/queue/test_continuity.py::test_when_it_is_gone_the_reader_goes_on_from_the_stored_progress",
        "consumer/queue/test_continuity.py::test_a_look_that_is_cancelled_here_is_taken_by_the_next",
    ),
    "GuestHost": Lives(
        "shells/test_guest_host.py::test_a_user_that_comes_while_the_run_starts_or_ends_gets_one_and_one_that_gives_up_leaves_nothing",
        "shells/test_guest_host.py::test_many_tasks_come_and_go",
        "shells/test_guest_host.py::test_a_release_that_is_cancelled_has_ended_the_run_all_the_same",
    ),
    "Heartbeats": Lives(
        "test_heartbeats.py::test_brokers_that_no_route_names_any_more_are_forgotten",
        "test_heartbeats.py::test_a_group_is_one_producer_and_one_consumer",
        "test_public_calls.py::test_cancelled_anywhere_a_client_leaves_no_connection_or_lock_and_loses_no_acknowledgement",
    ),
    "Lane": Lives(
        "producer/test_lanes.py::test_attempts_leave_in_order_and_those_given_up_are_skipped",
        "producer/test_lanes.py::test_a_lane_is_there_as_long_as_something_serves_it",
        SYNC,
    ),
    "Lanes": Lives(
        SYNC,
        "producer/test_lanes.py::test_a_lane_is_there_as_long_as_something_serves_it",
        SYNC,
    ),
    "LoopCall": Lives(
        "shells/test_loop_call.py::test_a_call_that_has_ended_cannot_be_abandoned_any_more",
        "a call has one life",
        "shells/test_loop_call.py::test_a_call_that_is_abandoned_before_it_starts_never_runs",
    ),
    "MessageStream": Lives(
        "consumer/test_message_stream.py::test_a_queue_that_loses_its_tail_is_read_again_from_what_is_stored",
        "consumer/test_message_stream.py::test_a_queue_whose_broker_was_away_goes_on_from_the_groups_progress",
        "test_public_calls.py::test_cancelled_anywhere_a_call_leaves_no_task_or_lock_and_loses_no_acknowledgement",
    ),
    "OffsetTable": Lives(
        SYNC,
        "consumer/offsets/test_offset_store.py::test_offsets_are_listed_by_topic_and_forgotten_by_queue",
        SYNC,
    ),
    "OrderlyConsumption": Lives(
        "consumer/test_orderly.py::test_a_lock_that_ends_meanwhile_keeps_a_queue_that_has_waited_for_a_handler",
        "consumer/test_orderly.py::test_the_result_of_a_dropped_queue_does_not_count_and_the_next_assignment_waits_for_it",
        "consumer/test_orderly.py::test_a_handler_that_is_cancelled_returns_its_messages",
    ),
    "PendingSend": Lives(
        SYNC,
        "a send has one life",
        "producer/test_pending_send.py::test_cancelled_waiting_leaves_the_send_alone",
    ),
    "Pipeline": Lives(
        "producer/test_pipeline.py::test_a_silent_broker_leaves_time_for_another_one",
        "a delivery has one life",
        "test_public_calls.py::test_cancelled_anywhere_a_call_leaves_no_task_or_lock_and_loses_no_acknowledgement",
    ),
    "ProcessQueue": Lives(
        SYNC,
        "consumer/queue/test_process_queue.py::test_a_dropped_queue_forgets_everything",
        SYNC,
    ),
    "PullConsumer": Lives(
        SYNC,
        "consumer/test_pull_consumer.py::test_an_sql_filter_is_the_brokers_and_has_its_version",
        "test_public_calls.py::test_cancelled_anywhere_a_call_leaves_no_task_or_lock_and_loses_no_acknowledgement",
    ),
    "PullGate": Lives(
        "consumer/lite_pull/test_consumer.py::test_a_paused_queue_is_not_pulled_until_it_goes_on",
        "consumer/group/test_assigned_queues.py::test_a_paused_queue_that_comes_again_is_read",
        SYNC,
    ),
    "PulledMessages": Lives(
        "consumer/lite_pull/test_pulled_messages.py::test_pieces_of_a_queue_that_is_gone_are_skipped",
        "consumer/lite_pull/test_pulled_messages.py::test_what_will_never_be_polled_holds_nobody_and_is_forgotten",
        "consumer/lite_pull/test_pulled_messages.py::test_a_poll_waits_for_a_piece_and_one_that_is_cancelled_loses_none",
    ),
    "QueueChanges": Lives(
        "consumer/lite_pull/test_queue_changes.py::test_the_end_of_the_consumer_is_not_waited_out",
        "consumer/lite_pull/test_queue_changes.py::test_the_queues_come_at_once_and_then_when_they_have_changed",
        SYNC,
    ),
    "QueueChoice": Lives(
        SYNC,
        "producer/test_queue_choice.py::test_a_broker_that_no_longer_has_the_topic_is_forgotten",
        SYNC,
    ),
    "QueueLocks": Lives(
        "consumer/group/test_queue_locks.py::test_a_broker_that_ends_meanwhile_begins_another_grace_period",
        "consumer/group/test_queue_locks.py::test_a_queue_that_is_lost_is_not_remembered",
        "consumer/group/test_queue_locks.py::test_a_grace_period_that_is_cancelled_here_is_waited_for_by_the_next",
    ),
    "QueueRequests": Lives(
        "consumer/test_pull_consumer.py::test_a_slave_that_does_not_answer_is_left_for_the_master",
        "consumer/offsets/test_remote_offset_store.py::test_nothing_is_written_of_a_queue_that_may_have_lost_its_tail",
        "test_public_calls.py::test_cancelled_anywhere_a_call_leaves_no_task_or_lock_and_loses_no_acknowledgement",
    ),
    "RebalanceService": Lives(
        "consumer/group/test_rebalance.py::test_what_is_asked_for_during_a_round_is_for_the_next",
        "consumer/group/test_rebalance.py::test_a_topic_that_is_left_is_given_up",
        "test_public_calls.py::test_cancelled_anywhere_a_client_leaves_no_connection_or_lock_and_loses_no_acknowledgement",
    ),
    "Reconnects": Lives(
        "test_reconnects.py::test_a_broker_without_route_is_given_up_and_forgotten",
        "test_reconnects.py::test_a_connection_that_ends_again_and_again_causes_a_heartbeat_a_second",
        "test_reconnects.py::test_a_reader_that_is_cancelled_here_leaves_the_heartbeat_to_the_others",
    ),
    "RemoteOffsetStore": Lives(
        "consumer/offsets/test_remote_offset_store.py::test_the_others_wait_for_a_silent_broker_a_second_at_most",
        "consumer/offsets/test_remote_offset_store.py::test_the_pairs_that_are_known_to_have_an_offset_have_a_bound",
        "test_public_calls.py::test_cancelled_anywhere_a_client_leaves_no_connection_or_lock_and_loses_no_acknowledgement",
    ),
    "Replies": Lives(
        "test_replies.py::test_after_the_producers_have_gone_replies_are_refused",
        "test_replies.py::test_one_reply_counts_and_one_in_an_unknown_compression_is_refused",
        "test_replies.py::test_a_request_cancelled_anywhere_leaves_no_waiting_call",
    ),
    "RetryRoute": Lives(
        "consumer/group/test_retry_route.py::test_it_is_looked_up_until_the_queues_of_all_brokers_that_need_it_are_known",
        "consumer/group/test_retry_route.py::test_it_is_looked_up_until_the_queues_of_all_brokers_that_need_it_are_known",
        "it is cancelled only with its member",
    ),
    "RouteFinder": Lives(
        "test_route_finder.py::test_many_who_need_a_route_ask_once",
        "test_route_finder.py::test_topics_that_come_and_go_leave_nothing",
        "test_route_finder.py::test_a_look_up_that_fails_leaves_nothing",
    ),
    "RouteTable": Lives(
        SYNC,
        "test_routes.py::test_a_route_that_is_used_stays_though_no_nameserver_knows_its_topic",
        SYNC,
    ),
    "ScheduledPull": Lives(
        "consumer/test_scheduled_pull.py::test_a_call_comes_to_its_end_and_a_queue_that_comes_back_waits_for_it",
        "consumer/test_scheduled_pull.py::test_a_call_comes_to_its_end_and_a_queue_that_comes_back_waits_for_it",
        "test_public_calls.py::test_cancelled_anywhere_a_call_leaves_no_task_or_lock_and_loses_no_acknowledgement",
    ),
    "SoughtOffsets": Lives(
        "consumer/lite_pull/test_chosen_queues.py::test_what_is_sought_while_the_offsets_are_looked_up_counts",
        "consumer/lite_pull/test_consumer.py::test_a_seek_is_forgotten_when_its_queue_comes_again",
        SYNC,
    ),
    "Subscriptions": Lives(
        SYNC,
        "consumer/group/test_subscriptions.py::test_a_topic_can_be_left",
        "consumer/group/test_subscriptions.py::test_what_a_block_that_fails_has_changed_is_undone",
    ),
    "Timeouts": Lives(
        "services/test_timeouts.py::test_a_stopped_entry_does_not_expire",
        "services/test_timeouts.py::test_an_entry_may_start_another_one",
        SYNC,
    ),
    "TraceDispatcher": Lives(
        "trace/test_trace_dispatcher.py::test_records_that_come_while_a_flush_waits_are_flushed_too",
        "trace/test_trace_dispatcher.py::test_a_failure_is_counted_and_the_next_message_is_sent",
        "trace/test_trace_dispatcher.py::test_cancelled_anywhere_it_stores_all_and_leaves_nothing",
    ),
    "_Readers": Lives(
        "consumer/test_message_stream.py::test_an_abandoned_stream_has_ended",
        "consumer/test_message_stream.py::test_following_takes_in_queues_that_the_topic_gets",
        "test_public_calls.py::test_cancelled_anywhere_a_call_leaves_no_task_or_lock_and_loses_no_acknowledgement",
    ),
}

ONE_LIFE: Mapping[str, str] = {
    "ClientInstance": "the nameservers of its settings, for as long as it lives",
    "Delivery": "the attempts of one send",
    "FilterMessageContext": "one answer to a pull",
    "MessageTrace": "the result of one call",
    "QueryResult": "the result of one call",
    "ReplyMessage": "one message",
    "_Answers": "one round of renewals",
    "_Batch": "the messages of one request",
    "_TraceMessage": "one message",
}


def classes_with_tables() -> set[str]:
    """Return the classes of the client that have a table among their attributes, or objects of their own that live."""
    found = set()
    for path in CLIENT.rglob("*.py"):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.ClassDef) and any(is_table(node, each) for node in ast.walk(each)):
                found.add(each.name)
    return found


def is_table(node: ast.AST, of: ast.ClassDef) -> bool:
    """Return whether a line gives a class an attribute that is a table."""
    if not isinstance(node, ast.AnnAssign):
        return False
    is_attribute = isinstance(node.target, ast.Attribute) or node in of.body
    return is_attribute and ast.unparse(node.annotation).partition("[")[0].rpartition(".")[2] in TABLES


def test_each_class_with_a_table_is_taken_through_its_lives() -> None:
    found = classes_with_tables()
    assert found - LIVES.keys() - ONE_LIFE.keys() == set(), "name its tests in LIVES, or why it has one life"
    assert ONE_LIFE.keys() - found == set()
    assert not LIVES.keys() & ONE_LIFE.keys()


@pytest.mark.parametrize("name", LIVES)
def test_the_tests_that_are_named_exist(name: str) -> None:
    for each in attrs.astuple(LIVES[name]):
        if "::" in each:
            file_name, _, test = each.partition("::")
            tree = ast.parse((TESTS / file_name).read_text())
            assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_names_say_which_life_they_show() -> None:
    """For the places where a fault was planted, and nothing noticed."""
    named = " ".join(test for lives in LIVES.values() for test in attrs.astuple(lives))
    for sort in ("ends_meanwhile", "comes_again", "cancelled_here"):
        assert sort in named

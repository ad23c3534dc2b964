"""The table "Client features" of ``docs/compatibility.md``: what our client has of Java's, and the tests that show it.

``python -m tests.client_features`` rewrites the table. A test that is named for another client sends to it, is sent to
by it, or is in one group with it; one that is named for Java's broker runs against that each time.
:mod:`tests.test_client_features_page` holds names, columns and table to what there is.
"""

from __future__ import annotations

from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
HEADING = "\n## Client features\n"
COLUMNS = (
    "",
    "feature",
    "`rocketpy.client`",
    "alone",
    "with Java's client",
    "with Go's client",
    "on Java's broker",
    "what is not, and why",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"
NOTHING = "-"
INNER = "no other client takes part"
FEWER_PULLS = "a broker sees only that pulls stay away"
FAULTS = "a scripted broker makes the faults"

MESSAGES = "interop/test_client_messages.py::"
GROUPS = "interop/test_client_groups.py::"
CONVERSATIONS = "interop/test_client_conversations.py::"
ALONE = "interop/test_client_alone.py::"
LITE = "interop/test_lite_pull.py::"
TRACES = "interop/test_client_traces.py::"
NAMESPACES = "interop/test_client_namespaces.py::"
CLIENT = "client/"
PRODUCER = "client/producer/"
CONSUMER = "client/consumer/"
PULL = "client/consumer/test_pull_consumer.py::"
LITE_PULL = "client/consumer/lite_pull/test_consumer.py::"


def _tests(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given


@attrs.frozen(kw_only=True)
class Feature:
    """One row. Tests are named ``FILE::FUNCTION``, with the file's path below ``tests/``."""

    code: str = attrs.field(kw_only=False)
    name: str = attrs.field(kw_only=False)
    ours: tuple[str, ...] = attrs.field(converter=_tests)
    """Names of the public interface, as in the tables of "Client API"."""
    alone: tuple[str, ...] = attrs.field(converter=_tests)
    """Tests without another client: with a scripted broker, ours, or none."""
    java: tuple[str, ...] = attrs.field(default=(), converter=_tests)
    go: tuple[str, ...] = attrs.field(default=(), converter=_tests)
    java_broker: tuple[str, ...] = attrs.field(default=(), converter=_tests)
    absent: str = ""

    @property
    def line(self) -> str:
        """The row as it stands on the page."""
        ours = ", ".join(f"`{each}`" for each in self.ours)
        tests = (_cell(each) for each in (self.alone, self.java, self.go, self.java_broker))
        return f"| {self.code} | {self.name} | {ours} | {' | '.join(tests)} | {self.absent} |\n"


def _cell(tests: tuple[str, ...]) -> str:
    return "<br>".join(f"`{each}`" for each in tests) or NOTHING


def everywhere(test: str) -> dict[str, str]:
    """Return the columns of a test with both clients, at both brokers."""
    return {"java": test, "go": test, "java_broker": test}


EACH_WAY = MESSAGES + "test_each_way_of_sending_arrives_once_with_its_body_tags_keys_and_properties"
IDS = MESSAGES + "test_the_ids_and_the_place_of_a_message_are_those_in_its_answer"
TRANSACTIONS = CONVERSATIONS + "test_a_transaction_of_each_client_is_seen_by_all_when_it_is_committed_and_only_then"
CHECKS = CONVERSATIONS + "test_a_check_is_answered_by_another_client_of_the_group"
REQUESTS = CONVERSATIONS + "test_requests_of_each_client_are_answered_by_the_others"
NO_REPLY = CONVERSATIONS + "test_a_request_without_a_reply_ends_with_java_s_code_and_a_reply_to_nobody_is_refused"
SHARES = GROUPS + "test_members_of_three_clients_divide_the_queues_of_a_group"
ORDER_JAVA = GROUPS + "test_orderly_members_of_java_and_ours_keep_the_order_of_each_queue_through_a_handover"
ORDER_GO = GROUPS + "test_an_orderly_member_of_go_goes_on_where_ours_stopped_and_ours_where_go_s_stopped"
FILTERS = GROUPS + "test_a_filter_means_the_same_to_each_client"
TOPICS = GROUPS + "test_topics_come_and_go_while_a_consumer_runs"
START = GROUPS + "test_a_new_group_begins_where_java_s_begins"
GIVEN_BACK = GROUPS + "test_what_a_member_gave_back_another_client_s_member_gets"
AGAIN = GROUPS + "test_a_message_that_failed_comes_again_with_the_properties_that_java_gives_it"
DEAD = GROUPS + "test_a_dead_letter_of_each_client_is_read_by_the_others"
LITE_SHARES = LITE + "test_a_group_is_shared_with_a_member_of_java_and_handed_over_both_ways"
LITE_COMMITS = LITE + "test_what_is_polled_is_committed_by_a_later_poll_as_by_one_of_java"
LITE_SEEKS = LITE + "test_queues_that_are_assigned_are_sought_paused_and_looked_up"
PULL_TASKS = LITE + "test_pull_tasks_share_a_group_with_a_member_of_java"
PULL_BACK = LITE + "test_a_message_that_was_pulled_is_given_back_to_members_with_handlers"
RAISES = CONVERSATIONS + "test_a_local_transaction_that_raises_is_asked_about_and_a_hook_sees_each_verdict"
ITS_FILE = ALONE + "test_a_broadcasting_member_goes_on_where_its_file_says"
RECORDS = TRACES + "test_our_records_are_like_javas_and_each_is_read"
SHOWN = TRACES + "test_mqadmin_shows_what_our_client_has_traced"
NAMESPACE_GROUPS = NAMESPACES + "test_members_of_one_group_share_its_queues"
NAMESPACE_FAILURES = NAMESPACES + "test_what_fails_comes_again_and_is_a_dead_letter_for_both"
NAMESPACE_TRANSACTIONS = NAMESPACES + "test_a_transaction_of_each_reaches_a_consumer_of_the_other"
NAMESPACE_REQUESTS = NAMESPACES + "test_each_answers_the_requests_of_the_other"
NAMESPACE_LITE = NAMESPACES + "test_lite_pull_consumers_of_one_group_share_its_queues"
OFFSETS = GROUPS + "test_a_group_goes_on_where_another_client_s_member_stopped"

FEATURES = (
    Feature(
        "P01",
        "send, and its status",
        ours=("Producer.send", "SendResult.status"),
        alone=(
            PRODUCER + "test_producer.py::test_a_message_arrives_as_it_was_given",
            PRODUCER + "test_producer.py::test_a_weaker_status_means_stored_and_is_not_repeated",
        ),
        **everywhere(EACH_WAY),
    ),
    Feature(
        "P02",
        "send without waiting",
        ours=("Producer.send_nowait", "Producer.send_soon"),
        alone=PRODUCER + "test_send_nowait.py::test_results_come_later",
        **everywhere(EACH_WAY),
    ),
    Feature(
        "P03",
        "oneway",
        ours="Producer.send_oneway",
        alone=PRODUCER + "test_send_nowait.py::test_oneway_needs_no_answer",
        **everywhere(EACH_WAY),
    ),
    Feature(
        "P04",
        "to a chosen queue",
        ours="Producer.send(queue)",
        alone=PRODUCER + "test_producer.py::test_a_chosen_queue_gets_it_or_none",
        **everywhere(MESSAGES + "test_a_chosen_queue_gets_the_message"),
    ),
    Feature(
        "P05",
        "by a selector",
        ours=("queue_by_hash", "queue_by_random", "QueueSelector"),
        alone=(
            PRODUCER + "test_selectors.py::test_hashes_are_those_of_java",
            PRODUCER + "test_delivery.py::test_a_selector_gets_the_queues_and_the_callers_message",
        ),
        java=MESSAGES + "test_a_key_leads_to_the_queue_that_java_chooses",
        go=MESSAGES + "test_a_key_leads_to_the_queue_that_java_chooses",
        java_broker=MESSAGES + "test_a_key_leads_to_the_queue_that_java_chooses",
        absent="Go's own hash is another one: it and ours choose different queues for a key",
    ),
    Feature(
        "P06",
        "batch",
        ours="Producer.send_batch",
        alone=PRODUCER + "test_producer.py::test_a_batch_lies_side_by_side_in_one_queue",
        **everywhere(MESSAGES + "test_a_batch_lies_side_by_side_under_one_answer"),
    ),
    Feature(
        "P07",
        "collected batches",
        ours="Producer.batching",
        alone=PRODUCER + "test_batching.py::test_messages_share_a_request_and_each_has_its_own_offset",
        **everywhere(EACH_WAY),
        absent="the others take them; Java 4.9 and Go have no such call to be compared with",
    ),
    Feature(
        "P08",
        "delay level",
        ours="Message.create(delay_level)",
        alone=PRODUCER + "test_golden_sends.py::test_a_send_has_the_fields_of_javas",
        **everywhere(MESSAGES + "test_a_delayed_message_comes_after_its_time"),
    ),
    Feature(
        "P09",
        "tags, keys, properties",
        ours="Message.create(tags)",
        alone=CLIENT + "test_end_to_end.py::test_what_is_sent_is_read_as_it_was_given",
        **everywhere(EACH_WAY),
    ),
    Feature(
        "P10",
        "unique ids and offset ids",
        ours=("SendResult.msg_id", "SendResult.offset_msg_id", "MessageExt.offset_msg_id"),
        alone=PRODUCER + "test_producer.py::test_unique_keys_name_address_and_process_and_never_repeat",
        **everywhere(IDS),
    ),
    Feature(
        "P11",
        "compression: zlib, lz4, zstd",
        ours=("ProducerConfig.compress_type", "ProducerConfig.compress_msg_body_over_howmuch"),
        alone=PRODUCER + "test_producer.py::test_the_algorithm_and_its_level_are_settings",
        **everywhere(MESSAGES + "test_a_large_body_travels_compressed"),
        absent="Go knows zlib only",
    ),
    Feature(
        "P12",
        "retries and deadlines",
        ours=("ProducerConfig.retry_times_when_send_failed", "ProducerConfig.send_msg_timeout"),
        alone=(
            PRODUCER + "test_producer.py::test_codes_that_mean_another_broker_may_do_it_are_repeated_there",
            PRODUCER + "test_pipeline.py::test_all_attempts_together_take_no_longer_than_the_whole",
            PRODUCER + "test_retry_rules.py::test_sync_retries_codes_and_async_does_not",
        ),
        absent=f"{INNER}; {FAULTS}",
    ),
    Feature(
        "P13",
        "latency fault avoidance",
        ours="ProducerConfig.send_latency_fault_enable",
        alone=(
            PRODUCER + "test_pipeline.py::test_slow_brokers_are_avoided_when_that_is_set",
            PRODUCER + "test_broker_health.py::test_a_failure_isolates_for_ten_minutes_however_quick_it_was",
        ),
        absent=f"{INNER}; {FAULTS}",
    ),
    Feature(
        "P14",
        "namespace",
        ours="ClientConfig.namespace",
        alone=(
            PRODUCER + "test_namespace_of_sends.py::test_every_kind_of_send_has_the_namespace",
            CLIENT + "test_namespace.py::test_clients_of_two_namespaces_do_not_meet",
        ),
        java=(NAMESPACE_TRANSACTIONS, NAMESPACE_REQUESTS),
        java_broker=(NAMESPACE_TRANSACTIONS, NAMESPACE_REQUESTS),
        absent="Go's client is not run with a namespace",
    ),
    Feature(
        "P15",
        "unit mode, VIP channel",
        ours=("ClientConfig.unit_mode", "ClientConfig.unit_name", "ClientConfig.vip_channel_enabled"),
        alone=(
            CLIENT + "test_instance.py::test_the_identity_has_the_unit",
            PRODUCER + "test_pipeline.py::test_with_the_vip_channel_sends_go_to_the_second_port",
        ),
        java=GROUPS + "test_what_is_sent_over_the_vip_channel_arrives",
        java_broker=GROUPS + "test_what_is_sent_over_the_vip_channel_arrives",
        absent="Go's client has neither",
    ),
    Feature(
        "P16",
        "ACL",
        ours="ClientConfig.credentials",
        alone="protocol/test_signature.py::test_our_signer_adds_the_fields_that_javas_hook_adds",
        java_broker="interop/test_acl.py::test_our_client_signs_for_javas_broker",
        absent=INNER,
    ),
    Feature(
        "P17",
        "TLS",
        ours=("ClientConfig.use_tls", "ClientConfig.tls"),
        alone=CLIENT + "test_end_to_end.py::test_a_cluster_that_takes_tls_only_and_known_clients_only",
        java_broker="interop/test_tls.py::test_our_client_sends_and_pulls_over_tls_from_java",
        absent=INNER,
    ),
    Feature(
        "P18",
        "trace and hooks",
        ours=(
            "ProducerConfig.enable_msg_trace",
            "Client.producer(send_hooks)",
            "Client.producer(check_forbidden_hooks)",
        ),
        alone=(
            CLIENT + "trace/test_tracing.py::test_each_kind_of_send_is_traced",
            CLIENT + "trace/test_trace_data.py::test_records_are_javas_byte_for_byte_and_read_back",
            CLIENT + "test_hooks.py::test_a_hook_sees_before_and_after",
            CLIENT + "test_hooks.py::test_what_is_forbidden_reaches_the_sender_and_no_broker",
        ),
        java=(RECORDS, TRACES + "test_transactions_leave_the_same_records"),
        java_broker=(RECORDS, SHOWN, TRACES + "test_transactions_leave_the_same_records"),
        absent="hooks are inside a program; Go's client is not run with traces",
    ),
    Feature(
        "T01",
        "commit",
        ours=("TransactionProducer.transaction", "Transaction.commit"),
        alone=PRODUCER + "test_transaction.py::test_against_a_real_broker",
        **everywhere(TRANSACTIONS),
    ),
    Feature(
        "T02",
        "rollback",
        ours="Transaction.rollback",
        alone=PRODUCER + "test_transaction.py::test_verdicts",
        **everywhere(TRANSACTIONS),
    ),
    Feature(
        "T03",
        "unknown, then checked",
        ours="Client.transaction_producer(check)",
        alone=PRODUCER + "test_transaction.py::test_a_check_is_answered_by_a_verdict",
        **everywhere(TRANSACTIONS),
    ),
    Feature(
        "T04",
        "check answered by another instance",
        ours="Client.transaction_producer(check)",
        alone=PRODUCER + "test_transaction.py::test_a_check_is_answered_by_a_verdict",
        **everywhere(CHECKS),
    ),
    Feature(
        "T05",
        "local transaction raises",
        ours=("TransactionProducer.send_in_transaction", "TransactionSendResult.local_transaction_state"),
        alone=PRODUCER + "test_transaction.py::test_a_local_transaction_that_fails_is_unknow_and_says_why",
        java_broker=RAISES,
        absent=INNER,
    ),
    Feature(
        "T06",
        "half message not SEND_OK: rolled back without the handler",
        ours="TransactionProducer.send_in_transaction",
        alone=PRODUCER + "test_transaction.py::test_a_half_message_that_is_not_safe_is_rolled_back",
        absent=f"{INNER}; {FAULTS}",
    ),
    Feature(
        "T07",
        "hook at the end, ids",
        ours="Client.transaction_producer(end_transaction_hooks)",
        alone=(
            PRODUCER + "test_transaction.py::test_a_hook_sees_each_verdict_and_cannot_stop_it",
            CLIENT + "test_golden_requests.py::test_a_transaction_is_half_sent_and_ended",
        ),
        java_broker=RAISES,
        absent=f"{INNER}; ids are compared with Java's recorded frames",
    ),
    Feature(
        "Q01",
        "request and reply",
        ours=("Producer.request", "reply_to"),
        alone=(
            CLIENT + "test_replies.py::test_a_request_is_what_java_sends_and_gets_its_reply",
            CLIENT + "test_golden_requests.py::test_a_request_and_its_reply",
        ),
        **everywhere(REQUESTS),
    ),
    Feature(
        "Q02",
        "request in a task, with a selector",
        ours="Producer.request(queue)",
        alone=CLIENT + "test_replies.py::test_against_a_real_broker",
        **everywhere(REQUESTS),
    ),
    Feature(
        "Q03",
        "time-out 10006, late reply",
        ours="Producer.request(timeout_s)",
        alone=(
            CLIENT + "test_replies.py::test_no_reply_in_time_is_10006_and_leaves_nothing",
            CLIENT + "test_replies.py::test_a_reply_that_nothing_waits_for_is_only_logged",
        ),
        java_broker=NO_REPLY,
        absent=f"{INNER}: none replies",
    ),
    Feature(
        "Q04",
        "reply without cluster 10007, reply to a client that is gone",
        ours="reply_to",
        alone=CLIENT + "test_replies.py::test_a_reply_names_the_request_it_answers",
        java_broker=NO_REPLY,
        absent=INNER,
    ),
    Feature(
        "C01",
        "clustering",
        ours="Client.consumer",
        alone=CONSUMER + "test_consumer.py::test_members_share_the_queues_of_a_topic",
        java=(SHARES, EACH_WAY),
        go=(SHARES, EACH_WAY),
        java_broker=(SHARES, EACH_WAY),
    ),
    Feature(
        "C02",
        "broadcasting",
        ours="ConsumerConfig.message_model",
        alone=(
            CONSUMER + "test_consumer.py::test_a_broadcasting_consumer_takes_every_queue_and_keeps_its_offsets",
            CONSUMER + "test_consumer.py::test_a_broadcasting_consumer_is_orderly_without_locks",
        ),
        **everywhere(GROUPS + "test_every_broadcast_member_of_three_clients_sees_everything"),
    ),
    Feature(
        "C03",
        "concurrent",
        ours=("Consumer.run", "Consumer.batches"),
        alone=CONSUMER + "test_consumer.py::test_handlers_run_concurrently_and_what_fails_goes_back",
        **everywhere(EACH_WAY),
    ),
    Feature(
        "C04",
        "orderly, with locks",
        ours="Consumer.run_orderly",
        alone=(
            CONSUMER + "test_orderly.py::test_messages_come_in_order_before_and_after_the_handler_began",
            CONSUMER + "test_consumer.py::test_an_orderly_consumer_locks_its_queues_and_gives_them_back",
            CLIENT + "test_golden_requests.py::test_the_locks_of_an_orderly_member",
        ),
        java=ORDER_JAVA,
        go=ORDER_GO,
        java_broker=(ORDER_JAVA, ORDER_GO),
        absent="Go's member keeps the locks of queues that a rebalance takes from it for a minute, so that tests have "
        "one before and after ours only",
    ),
    Feature(
        "C05",
        "several messages to a handler",
        ours=("ConsumerConfig.consume_message_batch_max_size", "MessageBatch.ack_index"),
        alone=CONSUMER + "test_concurrently.py::test_only_messages_after_the_ack_index_go_back",
        java_broker=START,
        absent=INNER,
    ),
    Feature(
        "C06",
        "tags",
        ours="MessageSelector.by_tag",
        alone=(
            CLIENT + "test_end_to_end.py::test_tags_are_chosen_by_broker_and_client",
            CONSUMER + "test_message_selector.py::test_a_plain_text_is_a_tag_expression",
        ),
        **everywhere(FILTERS),
    ),
    Feature(
        "C07",
        "SQL92",
        ours="MessageSelector.by_sql",
        alone=CLIENT + "test_golden_requests.py::test_an_sql_filter_is_checked",
        **everywhere(FILTERS),
    ),
    Feature(
        "C08",
        "several topics",
        ours="Client.consumer(topics)",
        alone=CONSUMER + "test_consumer.py::test_topics_come_and_go_while_it_runs",
        java=(TOPICS, EACH_WAY),
        go=EACH_WAY,
        java_broker=(TOPICS, EACH_WAY),
    ),
    Feature(
        "C09",
        "subscribe, unsubscribe while it runs",
        ours=("Consumer.subscribe", "Consumer.unsubscribe"),
        alone=CONSUMER + "test_consumer.py::test_topics_come_and_go_while_it_runs",
        java=TOPICS,
        java_broker=TOPICS,
        absent="Java's client sends; Go's is not asked to, since it would show the same",
    ),
    Feature(
        "C10",
        "allocation strategies",
        ours=(
            "ConsumerConfig.allocate_message_queue_strategy",
            "AllocateAveragely",
            "AllocateByCircle",
            "AllocateConsistentHash",
            "AllocateByConfig",
            "AllocateByMachineRoom",
            "AllocateMachineRoomNearby",
        ),
        alone=(
            "protocol/allocation/test_averagely.py::test_consecutive_shares_are_those_of_java",
            "protocol/allocation/test_averagely.py::test_dealt_shares_are_those_of_java",
            "protocol/allocation/test_consistent_hash.py::test_shares_are_those_of_java",
            "protocol/allocation/test_machine_room.py::test_shares_of_some_rooms_are_those_of_java",
            "protocol/allocation/test_machine_room.py::test_shares_of_the_own_room_are_those_of_java",
            "protocol/allocation/test_by_config.py::test_every_client_gets_the_configured_queues_whatever_there_is",
        ),
        **everywhere(SHARES),
        absent="Go's consistent hash is made of other sums: with it there are members of Java and ours only. Machine "
        "rooms are compared with Java's recorded allocations",
    ),
    Feature(
        "C11",
        "start positions",
        ours=("ConsumerConfig.consume_from_where", "ConsumerConfig.consume_timestamp"),
        alone=(
            CONSUMER + "test_start.py::test_a_group_begins_where_its_policy_says",
            CONSUMER + "group/test_begin_offsets.py::"
            "test_stored_progress_comes_before_the_policy_and_a_queue_without_an_answer_is_left_out",
        ),
        java=START,
        java_broker=START,
        absent="Go's client is not run beside it: it has the first and the last offset as Java, and times of its own",
    ),
    Feature(
        "C12",
        "retry levels",
        ours=("MessageBatch.retry_later", "MessageBatch.delay_level"),
        alone=(
            CONSUMER + "test_concurrently.py::test_a_batch_that_fails_goes_back",
            CLIENT + "test_golden_requests.py::test_a_message_goes_back",
        ),
        java=(AGAIN, GIVEN_BACK),
        go=GIVEN_BACK,
        java_broker=(AGAIN, GIVEN_BACK),
    ),
    Feature(
        "C13",
        "dead letters",
        ours=("MessageBatch.dead_letter", "ConsumerConfig.max_reconsume_times"),
        alone=CONSUMER + "test_send_back.py::test_a_copy_goes_to_the_retry_topic_when_the_broker_refuses",
        **everywhere(DEAD),
    ),
    Feature(
        "C14",
        "local retry when the send-back fails",
        ours="MessageBatch.retry_later",
        alone=(
            CONSUMER
            + "test_concurrently.py::test_messages_that_nobody_takes_back_are_tried_again_here_after_five_seconds",
            CONSUMER + "test_orderly.py::test_a_message_that_nobody_takes_keeps_its_queue",
        ),
        absent=f"{INNER}; {FAULTS}",
    ),
    Feature(
        "C15",
        "flow control",
        ours=(
            "ConsumerConfig.pull_threshold_for_queue",
            "ConsumerConfig.pull_threshold_size_for_queue",
            "ConsumerConfig.consume_concurrently_max_span",
        ),
        alone=(
            CONSUMER + "queue/test_flow_limits.py::test_count_size_and_span_stop_pulling_above_their_limits",
            CONSUMER + "queue/test_flow_limits.py::test_limits_of_a_topic_are_shared_by_its_queues",
            CONSUMER + "queue/test_reader.py::test_too_much_in_flight_waits_for_an_acknowledgement",
        ),
        java_broker=ALONE + "test_a_queue_is_not_pulled_while_too_much_of_it_is_in_flight",
        absent=INNER,
    ),
    Feature(
        "C16",
        "expired messages",
        ours="ConsumerConfig.consume_timeout",
        alone=(
            CONSUMER + "test_concurrently.py::test_a_handler_that_never_ends_is_cancelled_and_its_messages_go_back",
            CONSUMER + "test_concurrently.py::test_a_batch_that_stays_in_hand_too_long_goes_back",
        ),
        absent=f"{INNER}; the least time is a minute, so that only tests in virtual time wait for it",
    ),
    Feature(
        "C17",
        "suspend, resume",
        ours=("Consumer.suspend", "Consumer.resume"),
        alone=CONSUMER + "test_consumer.py::test_a_suspended_consumer_finishes_what_it_has",
        absent=f"{INNER}; {FEWER_PULLS}",
    ),
    Feature(
        "C18",
        "offsets at the brokers",
        ours="ConsumerConfig.persist_consumer_offset_interval",
        alone=(
            CONSUMER + "test_consumer.py::test_a_consumer_that_is_cancelled_stores_what_was_acknowledged",
            CLIENT + "test_golden_requests.py::test_a_member_asks_for_its_group_its_progress_and_messages",
        ),
        **everywhere(OFFSETS),
    ),
    Feature(
        "C19",
        "offsets in a file",
        ours="ConsumerConfig.local_offset_store_dir",
        alone=CONSUMER + "offsets/test_local_offset_store.py::test_the_file_is_byte_for_byte_that_of_java",
        java_broker=ITS_FILE,
        absent="Java's file is compared as recorded; Go's has another form",
    ),
    Feature(
        "C20",
        "to a slave and back",
        ours=("Client.consumer", "Client.pull_consumer"),
        alone=(
            "broker/replication/test_failover.py::test_a_group_goes_on_at_the_slave_and_comes_back_with_its_progress",
            PULL + "test_the_next_pull_goes_where_the_last_one_said",
        ),
        absent=f"{INNER}; a Java slave is the subject of `interop/test_replication_clients.py`, with clients of others",
    ),
    Feature(
        "C21",
        "lite pull: subscribe, poll, commit by itself",
        ours=("LitePullConsumer.subscribe", "LitePullConsumer.poll", "LitePullConfig.auto_commit"),
        alone=(
            LITE_PULL + "test_a_poll_commits_what_the_polls_before_it_have_returned_once_in_an_interval",
            LITE_PULL + "test_polls_return_one_pull_each_in_order",
            LITE_PULL + "test_pulls_have_the_flags_and_times_of_java",
        ),
        java=(LITE_SHARES, LITE_COMMITS, NAMESPACE_LITE),
        java_broker=(LITE_SHARES, LITE_COMMITS, NAMESPACE_LITE),
        absent="Go 2.1 has no such consumer",
    ),
    Feature(
        "C22",
        "lite pull: assign, seek, pause, committed",
        ours=(
            "LitePullConsumer.assign",
            "LitePullConsumer.seek",
            "LitePullConsumer.pause",
            "LitePullConsumer.committed",
        ),
        alone=(
            LITE_PULL + "test_queues_of_the_programs_choice_replace_those_before",
            LITE_PULL + "test_a_seek_goes_back_and_forth_while_a_pull_waits",
            LITE_PULL + "test_a_paused_queue_is_not_pulled_until_it_goes_on",
            LITE_PULL + "test_a_commit_stores_all_queues_or_those_that_are_named_or_the_programs_own_offsets",
        ),
        java_broker=LITE_SEEKS,
        absent=INNER,
    ),
    Feature(
        "C23",
        "queue listener",
        ours=(
            "LitePullConsumer.assignment_changes",
            "LitePullConsumer.queue_changes",
            "PullConsumer.assignment_changes",
        ),
        alone=(
            CONSUMER + "group/test_assignment_changes.py::"
            "test_an_iterator_begins_with_what_is_assigned_and_waits_for_what_changes",
            LITE_PULL + "test_the_program_learns_of_its_queues",
            LITE_PULL + "test_the_queues_of_a_topic_are_watched",
            CONSUMER + "test_pull_consumer_member.py::"
            "test_it_shares_the_queues_of_its_topics_and_the_program_sees_each_change",
        ),
        java=LITE_SHARES,
        java_broker=LITE_SHARES,
        absent="Go 2.1 has no member that this consumer could share with",
    ),
    Feature(
        "C24",
        "classic pull, schedule service",
        ours=(
            "PullConsumer.pull",
            "PullConsumer.commit",
            "PullConsumer.send_message_back",
            "PullConsumer.run_pull_task",
        ),
        alone=(
            PULL + "test_a_pull_says_what_is_there_and_where_to_go_on",
            PULL + "test_a_held_pull_is_answered_by_the_next_message",
            CONSUMER + "test_pull_consumer_member.py::test_offsets_that_are_only_noted_are_stored_later",
            CONSUMER + "test_scheduled_pull.py::test_queues_are_called_concurrently_as_they_come_and_go",
            CLIENT + "test_golden_requests.py::test_a_pull_of_one_queue",
        ),
        java=PULL_TASKS,
        java_broker=(
            PULL_TASKS,
            PULL_BACK,
            "interop/test_rocketpy_client.py::test_single_messages_and_batches_arrive",
            "interop/test_rocketpy_client.py::test_following_progress_tags_and_offsets",
        ),
        absent="Go 2.1 has no member that this consumer could share with",
    ),
    Feature(
        "C25",
        "requests of brokers: 40, 220, 221, 307, 309",
        ours="Consumer",
        alone=(
            CONSUMER + "group/test_broker_commands.py::test_a_notification_rebalances_at_once",
            CONSUMER + "group/test_broker_commands.py::test_offsets_are_reset_and_what_is_in_flight_does_not_count",
            CONSUMER + "group/test_broker_commands.py::test_offsets_are_reported_by_topic",
            CONSUMER + "group/test_broker_commands.py::test_a_report_says_what_is_in_flight",
            CONSUMER + "group/test_broker_commands.py::test_one_message_is_consumed_on_demand",
            CLIENT + "test_golden_answers.py::test_the_offsets_of_a_member",
            CLIENT + "test_golden_answers.py::test_a_message_that_is_handed_to_a_member",
            CLIENT + "test_golden_answers.py::test_the_report_of_a_member",
        ),
        java=("interop/test_live_consumers.py::test_mqadmin_asks_a_consumer_of_ours", SHARES),
        go=SHARES,
        java_broker=(SHARES, ALONE + "test_a_member_is_asked_for_its_offsets_handed_a_message_and_reset"),
    ),
    Feature(
        "C26",
        "consume and filter hooks, trace",
        ours=(
            "Client.consumer(consume_hooks)",
            "Client.consumer(filter_hooks)",
            "ConsumerConfig.enable_msg_trace",
        ),
        alone=(
            CONSUMER + "test_consume_hooks.py::test_the_end_of_a_concurrent_handler",
            CONSUMER + "test_consume_hooks.py::test_what_a_filter_hook_removes_counts_as_consumed",
            CLIENT + "trace/test_tracing.py::test_each_style_of_consumption_is_traced",
        ),
        java=RECORDS,
        java_broker=(RECORDS, SHOWN),
        absent="hooks are inside a program; Go's client is not run with traces",
    ),
    Feature(
        "C27",
        "namespace, ACL, TLS of consumers",
        ours=("ClientConfig.namespace", "ClientConfig.credentials", "ClientConfig.use_tls"),
        alone=(
            CLIENT + "test_namespace.py::test_a_consumer_handles_its_own_topic_and_dead_letters_keep_the_namespace",
            CLIENT + "test_end_to_end.py::test_a_cluster_that_takes_tls_only_and_known_clients_only",
        ),
        java=(NAMESPACE_GROUPS, NAMESPACE_FAILURES),
        java_broker=(
            NAMESPACE_GROUPS,
            NAMESPACE_FAILURES,
            "interop/test_acl.py::test_our_client_signs_for_javas_broker",
            "interop/test_tls.py::test_our_client_sends_and_pulls_over_tls_from_java",
        ),
        absent="ACL and TLS are between a client and a broker; Go's client is not run with a namespace",
    ),
)


def made_table() -> str:
    """Return the table as it ought to stand on the page."""
    return HEAD + "".join(each.line for each in FEATURES)


def split_page(page: str) -> tuple[str, str, str]:
    """Return what stands before the table, the table, and what follows."""
    start = page.index("\n| ", page.index(HEADING)) + 1
    end = page.index("\n\n", start) + 1
    return page[:start], page[start:end], page[end:]


def main() -> None:
    """Rewrite the table."""
    before, _, after = split_page(PAGE.read_text())
    PAGE.write_text(before + made_table() + after)


if __name__ == "__main__":
    main()

"""Checks of a send, in RocketMQ's order, with its codes and remarks."""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs
import pytest

from rocketpy.broker.send.checks import SendCheck
from rocketpy.errors import RequestError
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.topic_name import NOT_ALLOWED_SEND_TOPICS
from rocketpy.remoting.connection import Connection
from tests.broker.message_broker import TOPIC, send_header
from tests.broker.tables_of_a_broker import Tables
from tests.remoting.test_connection import make_connection

TablesWith = Callable[..., Tables]
FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


@pytest.fixture
def connection() -> Connection:
    return make_connection()[0]


def check_of(tables: Tables) -> SendCheck:
    return SendCheck(
        config=tables.config,
        topic_config_manager=tables.topics,
        subscription_group_manager=tables.groups,
        clock=tables.clock,
    )


def refusal(check: SendCheck, connection: Connection, **fields: object) -> tuple[int, str]:
    with pytest.raises(RequestError) as refused:
        check.checked_topic_config(connection, send_header(**fields))
    return refused.value.response_code, refused.value.remark


def test_a_known_topic_passes_with_its_own_configuration(tables: Tables, connection: Connection) -> None:
    tables.topics.update_topic_config(TopicConfig(TOPIC, 4, 4))
    check = check_of(tables)
    assert check.is_open
    config = check.checked_topic_config(connection, send_header(queue_id=3))
    assert config is tables.topics.select_topic_config(TOPIC)


def test_properties_that_can_never_be_stored_are_not_even_taken_apart(tables: Tables, connection: Connection) -> None:
    tables.topics.update_topic_config(TopicConfig(TOPIC, 4, 4))
    check = check_of(tables)
    check.checked_topic_config(connection, send_header(properties="x" * 65_534))
    code, remark = refusal(check, connection, properties="x" * 65_535)
    assert code == ResponseCode.MESSAGE_ILLEGAL
    assert remark.endswith("properties have 65535 characters, the limit is 32767")


# ---- each row of the table ------------------------------------------------------------------------------------------


def test_a_broker_that_is_not_to_be_used_yet_says_from_when(tables_with: TablesWith, connection: Connection) -> None:
    tables = tables_with(start_accept_send_request_time_stamp=1_700_000_000_001)
    tables.topics.update_topic_config(TopicConfig(TOPIC, 4, 4))
    check = check_of(tables)
    assert not check.is_open
    code, remark = refusal(check, connection)
    assert code == ResponseCode.SYSTEM_ERROR
    assert re.fullmatch(r"broker unable to service, until 2023-11-1[345] \d\d:\d\d:20,001", remark)
    tables.clock.advance_ms(1)
    check.checked_topic_config(connection, send_header())


def test_a_broker_without_write_permission_refuses_ordered_topics_only(
    tables_with: TablesWith, connection: Connection
) -> None:
    """Compatibility: routes make clients avoid such a broker; sends that arrive are accepted."""
    tables = tables_with(broker_permission=4)
    tables.topics.update_topic_config(TopicConfig("Ordered", 4, 4, order=True))
    tables.topics.update_topic_config(TopicConfig(TOPIC, 4, 4))
    check = check_of(tables)
    assert not check.is_open
    assert refusal(check, connection, topic="Ordered") == (
        ResponseCode.NO_PERMISSION,
        "the broker[127.0.0.1] sending message is forbidden",
    )
    check.checked_topic_config(connection, send_header())
    assert refusal(check, connection, topic="")[1] == "The specified topic is blank."


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        ("", "The specified topic is blank."),
        ("  ", "The specified topic is blank."),
        ("a.b", "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("../x", "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
        ("x" * 128, "The specified topic is longer than topic max length. It has 128 characters, the limit is 127"),
    ],
)
def test_an_illegal_name_is_refused(tables: Tables, connection: Connection, topic: str, remark: str) -> None:
    code, found = refusal(check_of(tables), connection, topic=topic)
    assert (code, found[: len(remark)]) == (ResponseCode.SYSTEM_ERROR, remark)


def test_a_topic_may_have_127_characters(tables: Tables, connection: Connection) -> None:
    config = check_of(tables).checked_topic_config(connection, send_header(topic="x" * 127))
    assert config.topic_name == "x" * 127


@pytest.mark.parametrize("topic", sorted(NOT_ALLOWED_SEND_TOPICS))
def test_the_brokers_own_topics_take_nothing_from_clients(tables: Tables, connection: Connection, topic: str) -> None:
    assert refusal(check_of(tables), connection, topic=topic) == (
        ResponseCode.NO_PERMISSION,
        f"Sending message to topic[{topic}] is forbidden.",
    )


def test_an_unknown_topic_without_a_model_does_not_exist(tables: Tables, connection: Connection) -> None:
    remark = f"topic[New] not exist, apply first please!{FAQ}"
    check = check_of(tables)
    assert refusal(check, connection, topic="New", default_topic="NoModel") == (ResponseCode.TOPIC_NOT_EXIST, remark)
    assert tables.topics.select_topic_config("New") is None


def test_a_topic_is_created_only_if_that_is_allowed(tables_with: TablesWith, connection: Connection) -> None:
    tables = tables_with(auto_create_topic_enable=False)
    assert refusal(check_of(tables), connection, topic="New")[0] == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(("queue_id", "ok"), [(-1, True), (0, True), (3, True), (7, True), (8, False), (99, False)])
def test_a_queue_id_is_below_the_larger_queue_number(
    tables: Tables, connection: Connection, queue_id: int, ok: bool
) -> None:
    tables.topics.update_topic_config(TopicConfig(TOPIC, read_queue_nums=8, write_queue_nums=4))
    check = check_of(tables)
    if ok:
        check.checked_topic_config(connection, send_header(queue_id=queue_id))
    else:
        assert refusal(check, connection, queue_id=queue_id) == (
            ResponseCode.SYSTEM_ERROR,
            f"request queueId[{queue_id}] is illegal, topic[TopicTest] has 8 queues (0 to 7), Producer: 10.1.2.3:4567",
        )


def test_the_permission_of_the_topic_is_not_looked_at(tables: Tables, connection: Connection) -> None:
    """Compatibility: as in RocketMQ; clients do not choose the queues of a topic that is not writable."""
    tables.topics.update_topic_config(TopicConfig(TOPIC, 4, 4, perm=4))
    check_of(tables).checked_topic_config(connection, send_header())


def test_a_time_in_a_far_future_is_shown_as_its_end(tables_with: TablesWith, connection: Connection) -> None:
    check = check_of(tables_with(start_accept_send_request_time_stamp=10**18))
    assert refusal(check, connection)[1].startswith("broker unable to service, until 9998-12-31")


def test_sends_make_only_so_many_topics(tables_with: TablesWith, connection: Connection) -> None:
    """A client that invents names must not fill memory, nameservers and disk with topics."""
    tables = tables_with(auto_create_topic_max=len(tables_with().topics.topic_config_table) + 2)
    check = check_of(tables)
    check.checked_topic_config(connection, send_header(topic="One"))
    check.checked_topic_config(connection, send_header(topic="Two"))
    for topic in ("Three", "%RETRY%Three"):
        code, remark = refusal(check, connection, topic=topic)
        assert code == ResponseCode.TOPIC_NOT_EXIST
        assert remark.startswith(f"topic[{topic}] not exist, apply first please!\nSee http")
        assert remark.endswith("already, see autoCreateTopicMax.")
        assert tables.topics.select_topic_config(topic) is None
    check.checked_topic_config(connection, send_header(topic="Two"))
    with pytest.raises(RequestError, match=r"not made: there are .* already, see autoCreateTopicMax") as caught:
        check.created_topic_config("%DLQ%g", queue_nums=1)
    assert caught.value.response_code == ResponseCode.SYSTEM_ERROR


# ---- the order of the rows ------------------------------------------------------------------------------------------


def test_of_several_faults_the_first_of_the_table_is_named(tables_with: TablesWith, connection: Connection) -> None:
    tables = tables_with(start_accept_send_request_time_stamp=1_700_000_000_001, broker_permission=4)
    check = check_of(tables)
    everything = {"topic": "SELF_TEST_TOPIC", "queue_id": 99}
    tables.topics.update_topic_config(TopicConfig("SELF_TEST_TOPIC", 1, 1, order=True))
    assert "unable to service" in refusal(check, connection, **everything)[1]
    tables.clock.advance_ms(1000)
    assert "sending message is forbidden" in refusal(check, connection, **everything)[1]
    tables.topics.update_topic_config(TopicConfig("SELF_TEST_TOPIC", 1, 1))
    assert "Sending message to topic[SELF_TEST_TOPIC]" in refusal(check, connection, **everything)[1]
    assert "illegal characters" in refusal(check, connection, topic="." * 200, queue_id=99)[1]
    fields = {"topic": "New", "queue_id": 99, "default_topic": "NoModel"}
    assert refusal(check, connection, **fields)[0] == ResponseCode.TOPIC_NOT_EXIST
    fields = {"topic": "New", "queue_id": 99}
    assert "request queueId[99] is illegal" in refusal(check, connection, **fields)[1]


# ---- topics made by sending to them ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "made"), [(1, 1), (4, 4), (8, 8), (9, 8), (2**31 - 1, 8), (0, 0), (-5, 0)])
def test_a_new_topic_has_no_more_queues_than_its_model(
    tables: Tables, connection: Connection, asked: int, made: int
) -> None:
    header = send_header(topic="New", default_topic_queue_nums=asked, queue_id=-1)
    config = check_of(tables).checked_topic_config(connection, header)
    assert config == TopicConfig("New", made, made, perm=6)
    assert tables.topics.select_topic_config("New") is config


def test_a_new_topic_takes_after_the_model_that_the_producer_names(tables: Tables, connection: Connection) -> None:
    model = TopicConfig("Model", 3, 3, perm=7, topic_filter_type="MULTI_TAG")
    tables.topics.update_topic_config(model)
    config = check_of(tables).checked_topic_config(connection, send_header(topic="New", default_topic="Model"))
    assert config == attrs.evolve(model, topic_name="New", perm=6)


@pytest.mark.parametrize(
    ("topic", "unit_mode", "sys_flag"),
    [("New", False, 0), ("New", True, 1), ("%RETRY%g", False, 0), ("%RETRY%g", True, 2)],
)
def test_the_unit_flag_of_a_new_topic(
    tables: Tables, connection: Connection, topic: str, unit_mode: bool, sys_flag: int
) -> None:
    config = check_of(tables).checked_topic_config(connection, send_header(topic=topic, unit_mode=unit_mode))
    assert config.topic_sys_flag == sys_flag


@pytest.mark.parametrize("unit_mode", [False, True])
def test_a_retry_topic_is_made_even_where_no_topic_is(
    tables_with: TablesWith, connection: Connection, unit_mode: bool
) -> None:
    tables = tables_with(auto_create_topic_enable=False)
    config = check_of(tables).checked_topic_config(connection, send_header(topic="%RETRY%g", unit_mode=unit_mode))
    assert config == TopicConfig("%RETRY%g", 1, 1, perm=6, topic_sys_flag=2 if unit_mode else 0)

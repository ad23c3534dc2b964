"""The spellings of a pull."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.protocol.headers import pull

CASES = [
    (
        pull.PullMessageRequestHeader(
            consumer_group="consumer group",
            topic="topic",
            queue_id=3,
            queue_offset=1099511627779,
            max_msg_nums=5,
            sys_flag=6,
            commit_offset=1099511627782,
            suspend_timeout_millis=1099511627783,
            subscription="subscription",
            sub_version=1099511627785,
            expression_type="expression type",
            broker_name="broker name",
        ),
        {
            "consumerGroup": "consumer group",
            "topic": "topic",
            "queueId": "3",
            "queueOffset": "1099511627779",
            "maxMsgNums": "5",
            "sysFlag": "6",
            "commitOffset": "1099511627782",
            "suspendTimeoutMillis": "1099511627783",
            "subscription": "subscription",
            "subVersion": "1099511627785",
            "expressionType": "expression type",
            "bname": "broker name",
        },
        "consumerGroup topic queueId queueOffset maxMsgNums sysFlag commitOffset suspendTimeoutMillis subVersion",
    ),
    (
        pull.PullMessageResponseHeader(
            suggest_which_broker_id=1099511627776,
            next_begin_offset=1099511627777,
            min_offset=1099511627778,
            max_offset=1099511627779,
        ),
        {
            "suggestWhichBrokerId": "1099511627776",
            "nextBeginOffset": "1099511627777",
            "minOffset": "1099511627778",
            "maxOffset": "1099511627779",
        },
        "suggestWhichBrokerId nextBeginOffset minOffset maxOffset",
    ),
]


@pytest.mark.parametrize(("header", "fields", "required"), CASES, ids=lambda value: type(value).__name__)
def test_header(check_header: Callable[..., None], header: object, fields: dict[str, str], required: str) -> None:
    check_header(header, fields, required=required)

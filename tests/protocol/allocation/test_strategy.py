"""What every strategy refuses, in Java's words."""

from __future__ import annotations

import pytest

from rocketpy.protocol.allocation.strategy import is_member
from rocketpy.protocol.message import MessageQueue
from tests.protocol.allocation.golden_allocations import ALLOCATIONS

QUEUE = MessageQueue("T", "b", 0)


def test_empty_inputs_are_refused_in_the_words_of_java() -> None:
    asked = 0
    for vector in ALLOCATIONS:
        if "strategy" in vector:
            queues = [] if vector["queues"] == "[]" else [QUEUE]
            if isinstance(vector["result"], dict):
                with pytest.raises(ValueError) as caught:
                    is_member(vector["current"], queues, vector["consumers"])
                assert str(caught.value) == vector["result"]["message"]
            else:
                assert is_member(vector["current"], queues, vector["consumers"]) is False
            asked += 1
    assert asked == 4


def test_a_client_in_the_list_takes_part() -> None:
    assert is_member("c0", [QUEUE], ["c0"])

"""Collaborators that every path of a send takes: fast path, general path, send-backs and replies."""

from __future__ import annotations

from random import Random

import attrs

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.send.admission import SendGate
from rocketpy.broker.send.answers import SendAnswers
from rocketpy.broker.send.checks import SendCheck
from rocketpy.broker.send.outcome import SendOutcome
from rocketpy.broker.send.put import MessagePut
from rocketpy.store.message_store import MessageStore


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SendCollaborators:
    """One set for each broker. A processor copies what it uses into attributes of its own, which costs a send nothing.

    What only one or two of the paths take (hooks, accounts, named queues) they take by themselves.
    """

    store: MessageStore
    message_put: MessagePut
    check: SendCheck
    gate: SendGate
    answers: SendAnswers
    outcome: SendOutcome
    stats: BrokerStatsManager
    config: BrokerConfig
    randomness: Random

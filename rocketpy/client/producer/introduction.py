"""Makes a producer known to brokers before it has sent anything.

Heartbeats go to the brokers of known routes. A client that has just been opened knows no route, and a broker that has
to ask about a transaction finds no producer of the group to ask. So the routes of some topics are looked up when a
producer opens, and refreshed with the others: that of ``create_topic_key``, whose brokers create topics on their own,
and those of the topics that the program names. The look-ups run in the background and delay nothing.

Compatibility: ``DefaultMQProducerImpl.start`` (4.9.8) puts ``createTopicKey`` among the topics whose routes are polled.
It takes no other topics, so where no broker creates topics a producer in Java is not known before its first send.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import trio

from rocketpy.client.instance import ClientInstance
from rocketpy.errors import BrokerError, RemoteProtocolError, RemotingError

_log = logging.getLogger("rocketpy.client")


async def introduce(instance: ClientInstance, group: str, topics: Sequence[str], *, is_asked: bool) -> None:
    """Look up the routes of topics, whose brokers get heartbeats then.

    ``is_asked``: brokers ask the group about transactions. Then this logs that none can, and when that is over; it
    returns once one can.
    """
    failure = await _look_up(instance, topics)
    if not is_asked or _knows_brokers(instance):
        return
    _log.warning(
        "no broker can ask the producer group %s about transactions before it sends: %s",
        group,
        failure or f"no route of {' or '.join(topics)}",
    )
    while not _knows_brokers(instance):
        await trio.sleep(instance.config.poll_name_server_interval / 1000)
        await _look_up(instance, topics)
    _log.info("brokers can ask the producer group %s about transactions now", group)


async def _look_up(instance: ClientInstance, topics: Sequence[str]) -> Exception | None:
    """Look all up; return what the last one failed with that did."""
    failure: Exception | None = None
    for topic in topics:
        try:
            await instance.routes.look_up_again(topic)
        except (RemotingError, BrokerError, RemoteProtocolError) as failed:
            failure = failed
    return failure


def _knows_brokers(instance: ClientInstance) -> bool:
    return bool(instance.routes.table.broker_addresses(masters_only=True))

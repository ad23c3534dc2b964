"""The JSON of a registration, made of pieces that are kept: a topic is encoded when it changes, not each time.

A broker registers every 30 seconds and after each change, always with all of its topics; encoding them costs ten
microseconds each. The pieces cost memory instead, about as much as the body itself.

Rule: the bytes are those of ``encode_body(RegisterBrokerBody(...))``, and the topics those of one moment, however long
it takes: after :data:`TOPICS_PER_SLICE` pieces that had to be made others run.
"""

from __future__ import annotations

import trio

from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.topic import TopicConfig, TopicConfigSerializeWrapper
from rocketpy.protocol.fastjson import dumps

TOPICS_PER_SLICE = 100

_BEGIN = b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":'
_TABLE = b',"topicConfigTable":{'
_END = b"}}}"


class RegistrationBody:
    """Encodes the topics of one broker, and remembers how."""

    def __init__(self) -> None:
        self._pieces: dict[str, tuple[TopicConfig, bytes]] = {}

    async def encode(self, wrapper: TopicConfigSerializeWrapper) -> bytes:
        """Return the body of a registration with these topics."""
        known, pieces = self._pieces, {}
        made_count = 0
        for topic, config in wrapper.topic_config_table.items():
            piece = known.get(topic)
            if piece is None or (piece[0] is not config and piece[0] != config):
                piece = config, dumps(topic).encode() + b":" + encode_body(config)
                made_count += 1
                if made_count % TOPICS_PER_SLICE == 0:
                    await trio.lowlevel.checkpoint()
            pieces[topic] = piece
        self._pieces = pieces
        table = b",".join([encoded for _, encoded in pieces.values()])
        return b"".join((_BEGIN, encode_body(wrapper.data_version), _TABLE, table, _END))

"""GET_ALL_DELAY_OFFSET: the progress of each delay level, for slaves and tools.

Compatibility: ``AdminBrokerProcessor.getAllDelayOffset`` (4.9.8); the body is one line of fastjson.
"""

from __future__ import annotations

from rocketpy.broker.acl.needs import STRICT_ADMIN
from rocketpy.broker.delay.offsets import DelayOffsetManager
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.offset import DelayOffsetSerializeWrapper
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher


class AdminDelayProcessor:
    """Processor of GET_ALL_DELAY_OFFSET."""

    def __init__(self, *, delay_offset_manager: DelayOffsetManager) -> None:
        self._delay_offset_manager = delay_offset_manager

    def register(self, dispatcher: Dispatcher) -> None:
        """Register for the code."""
        dispatcher.register(RequestCode.GET_ALL_DELAY_OFFSET, self.process_get_all_delay_offset, needs=STRICT_ADMIN)

    def process_get_all_delay_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Answer the next queue offset of each level."""
        offsets = dict(sorted(self._delay_offset_manager.offset_table.items()))
        return make_response(request, body=encode_body(DelayOffsetSerializeWrapper(offset_table=offsets)))

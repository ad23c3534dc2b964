"""The trace hooks of a role, with their dispatcher while the role is open; none for a role without traces.

Open it around the role: its last hooks are called when the role ends, and the dispatcher sends what they have recorded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import attrs

from rocketpy.client.hooks import ConsumeMessageHook, EndTransactionHook, SendMessageHook
from rocketpy.client.instance import ClientInstance
from rocketpy.client.trace.trace_dispatcher import TraceRole, open_trace_dispatcher
from rocketpy.client.trace.trace_hooks import ConsumeMessageTraceHook, EndTransactionTraceHook, SendMessageTraceHook
from rocketpy.protocol.message_id import UniqKeyFactory
from rocketpy.remoting.local_address import packed_address


class TraceConfig(Protocol):
    """The settings of a role that concern its traces."""

    @property
    def enable_msg_trace(self) -> bool:
        """Whether there are traces."""
        ...

    @property
    def customized_trace_topic(self) -> str:
        """Their topic; empty for RMQ_SYS_TRACE_TOPIC."""
        ...


@attrs.frozen
class ProducerTraces:
    """The trace hooks of a producer."""

    send_hooks: tuple[SendMessageHook, ...] = ()
    end_transaction_hooks: tuple[EndTransactionHook, ...] = ()


@asynccontextmanager
async def producer_traces(instance: ClientInstance, group: str, config: TraceConfig) -> AsyncIterator[ProducerTraces]:
    """Trace a producer while the block runs, if its settings say so."""
    if not config.enable_msg_trace:
        yield ProducerTraces()
        return
    async with open_trace_dispatcher(instance, group, TraceRole.PRODUCE, config.customized_trace_topic) as traces:
        yield ProducerTraces(
            (SendMessageTraceHook(traces, instance.clock),), (EndTransactionTraceHook(traces, instance.clock),)
        )


@asynccontextmanager
async def consumer_traces(
    instance: ClientInstance, group: str, config: TraceConfig
) -> AsyncIterator[tuple[ConsumeMessageHook, ...]]:
    """Trace a consumer while the block runs, if its settings say so."""
    if not config.enable_msg_trace:
        yield ()
        return
    ids = UniqKeyFactory(
        address=packed_address(instance.address),
        process_id=instance.process_id,
        constant=instance.randomness.getrandbits(32),
    )
    clock = instance.clock
    async with open_trace_dispatcher(instance, group, TraceRole.CONSUME, config.customized_trace_topic) as traces:
        yield (ConsumeMessageTraceHook(traces, clock, lambda: ids.create(clock.timestamp_ms())),)

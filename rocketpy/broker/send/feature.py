"""The send feature: fast path and general path of a send, send-backs, request-reply, and what they share.

Composition only; no logic.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketpy import BUILD
from rocketpy.broker.acl.strict_accounts import StrictAccounts
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.broker.hooks import BrokerHooks, ConsumeHooks, SendHooks
from rocketpy.broker.metadata.named_queues import NamedQueues
from rocketpy.broker.send.admission import SendGate
from rocketpy.broker.send.answers import SendAnswers
from rocketpy.broker.send.checks import SendCheck
from rocketpy.broker.send.collaborators import SendCollaborators
from rocketpy.broker.send.fast_batch import READ_BATCH, NewHeader, ReadBatch
from rocketpy.broker.send.fast_path import FastSend
from rocketpy.broker.send.long_batch import LongBatches
from rocketpy.broker.send.outcome import SendOutcome
from rocketpy.broker.send.overload import FastFailureService
from rocketpy.broker.send.processor import SendMessageProcessor
from rocketpy.broker.send.put import MessagePut
from rocketpy.broker.send.request_reply import ReplyMessageProcessor
from rocketpy.broker.send.send_back import SendBackProcessor
from rocketpy.protocol.fast_path_headers import DecodeBatch, DecodeSend, decode_fast_batch, decode_fast_send
from rocketpy.remoting.dispatch import Dispatcher, FastPath

LIVE_KEYS = ("brokerPermission", "startAcceptSendRequestTimeStamp", "traceOn")
"""Live settings with cached derivatives: call ``settings_changed`` after changing one."""


class SendFeature(Feature):
    """The processors of sends, admission control, and the service that closes it under overload."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        message_put: MessagePut,
        hooks: BrokerHooks,
        may_prepare: Callable[[], bool] = lambda: True,
        decode: DecodeSend = decode_fast_send,
        decode_batch: DecodeBatch = decode_fast_batch,
        read_batch: ReadBatch | None = READ_BATCH,
        has_kernels: bool = BUILD.has_kernels,
    ) -> None:
        """``may_prepare`` says whether one more transaction may begin.

        ``decode`` and ``decode_batch`` decode a header on the fast paths, ``read_batch`` reads a batch's body there.

        With ``has_kernels`` the headers of sends and batches are read by a kernel first.
        """
        config, store_config, store = context.config, context.store_config, context.store
        self.gate = SendGate()
        self.long_batches = LongBatches()
        self.consume_hooks = ConsumeHooks(hooks.consume)
        self.fast_failure = _fast_failure(context, self.gate)
        self.end_burst = store.end_burst
        """Ends a burst of the store; what the dispatcher calls."""
        if config.broker_fast_failure_enable:
            self.services = (self.fast_failure,)
        self._send_hooks = SendHooks(
            hooks.send,
            broker_addr=context.broker_addr,
            region_id=config.region_id,
            base_count=config.commercial_base_count,
        )
        answers = SendAnswers(
            region_id=config.region_id,
            trace_on=config.trace_on,
            store_host=context.store_host,
            message_size_max=store_config.max_message_size,
        )
        self._shared = SendCollaborators(
            store=store,
            message_put=message_put,
            check=_check(context),
            gate=self.gate,
            answers=answers,
            outcome=SendOutcome(store=store, answers=answers),
            stats=context.tables.stats,
            config=config,
            randomness=context.randomness,
        )
        # Without multi-dispatch a message cannot name further queues.
        self._named_queues = NamedQueues(context.tables.topics) if store_config.enable_multi_dispatch else None
        self._accounts = StrictAccounts(context.tables.accounts)
        self._context = context
        self._may_prepare = may_prepare
        self._decode = decode
        self._decode_batch = decode_batch
        self._read_batch = read_batch
        self._has_kernels = has_kernels
        self.settings = {LIVE_KEYS: self.settings_changed}
        self._on_change: list[Callable[[], None]] = [lambda: answers.set_trace_on(config.trace_on)]

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the codes of sends, send-backs and replies; the fast path only without send hooks."""
        if not self._send_hooks:
            self._register_fast_path(dispatcher)
        self._register_sends(dispatcher)
        self._register_send_backs(dispatcher)
        self._register_replies(dispatcher)

    def settings_changed(self) -> None:
        """Notify the listeners of the settings in ``LIVE_KEYS``."""
        for listener in self._on_change:
            listener()

    # ---- private --------------------------------------------------------------------------------------------------

    def _register_fast_path(self, dispatcher: Dispatcher) -> None:
        context = self._context
        new_header: NewHeader | None = None
        if self._has_kernels:
            from rocketpy.broker.send.kernel_path import KernelSend, header_factory  # plain Python does not load it

            new_header = header_factory(context.config.broker_cluster_name)
        fast = FastSend(
            self._shared,
            topic_config_manager=context.tables.topics,
            decode=self._decode,
            decode_batch=self._decode_batch,
            new_header=new_header,
            read_batch=self._read_batch,
        )
        self.gate.on_close(fast.invalidate)
        self._on_change.append(fast.invalidate)
        context.tables.stats.on_forgotten.append(fast.invalidate)
        process: FastPath = fast.process_fast
        if new_header is not None:
            compiled = KernelSend(self._shared, fast=fast, new_header=new_header)
            self._on_change.append(compiled.settings_changed)
            process = compiled.process
        fast.register(dispatcher, process)

    def _register_sends(self, dispatcher: Dispatcher) -> None:
        context = self._context
        SendMessageProcessor(
            self._shared,
            subscription_group_manager=context.tables.groups,
            hooks=self._send_hooks,
            accounts=self._accounts,
            new_topics=context.tables.topics.new,
            named_queues=self._named_queues,
            long_batches=self.long_batches,
            may_prepare=self._may_prepare,
        ).register(dispatcher)

    def _register_send_backs(self, dispatcher: Dispatcher) -> None:
        context = self._context
        SendBackProcessor(
            self._shared,
            subscription_group_manager=context.tables.groups,
            hooks=self.consume_hooks,
            accounts=self._accounts,
        ).register(dispatcher)

    def _register_replies(self, dispatcher: Dispatcher) -> None:
        context = self._context
        ReplyMessageProcessor(
            self._shared,
            find_channel=context.tables.producers.find_channel,
            hooks=self._send_hooks,
            named_queues=self._named_queues,
            store_host=context.store_host,
            clock=context.clock,
        ).register(dispatcher)


def _fast_failure(context: BrokerContext, gate: SendGate) -> FastFailureService:
    store_config = context.store_config
    return FastFailureService(
        store=context.store,
        gate=gate,
        config=context.config,
        busy_timeout_ms=store_config.os_page_cache_busy_time_out_mills,
        sync_timeout_ms=store_config.sync_flush_timeout if store_config.is_sync_flush else None,
    )


def _check(context: BrokerContext) -> SendCheck:
    return SendCheck(
        config=context.config,
        topic_config_manager=context.tables.topics,
        subscription_group_manager=context.tables.groups,
        clock=context.clock,
    )

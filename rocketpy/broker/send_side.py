"""The send side of a broker, put together: both roads of a send, send-backs and replies, and what they share.

Composition only: nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.hooks import BrokerHooks, ConsumeHooks, SendHooks
from rocketpy.broker.message_put import MessagePut
from rocketpy.broker.processors.reply import ReplyMessageProcessor
from rocketpy.broker.processors.send import SendMessageProcessor
from rocketpy.broker.processors.send_answer import SendAnswers
from rocketpy.broker.processors.send_back import SendBackProcessor
from rocketpy.broker.processors.send_check import SendCheck
from rocketpy.broker.processors.send_gate import SendGate
from rocketpy.broker.processors.send_hot import HotSend
from rocketpy.broker.processors.send_outcome import SendOutcome
from rocketpy.broker.services.fast_failure import FastFailureService
from rocketpy.broker.tables import Tables
from rocketpy.clock import Clock
from rocketpy.protocol.hot_headers import DecodeSend, decode_hot_send
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.message_store import MessageStore

LIVE_KEYS = ("brokerPermission", "startAcceptSendRequestTimeStamp", "traceOn")
"""Settings that something was made of: who changes one while the broker runs calls ``settings_changed``."""


class SendSide:
    """The processors of sends of one broker, with the gate before them and the service that closes it."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store_config: MessageStoreConfig,
        store: MessageStore,
        message_put: MessagePut,
        tables: Tables,
        hooks: BrokerHooks,
        broker_addr: str,
        store_host: bytes,
        clock: Clock,
        randomness: Random,
    ) -> None:
        self.gate = SendGate()
        self.consume_hooks = ConsumeHooks(hooks.consume)
        self.fast_failure = FastFailureService(
            store=store,
            gate=self.gate,
            config=config,
            busy_timeout_ms=store_config.os_page_cache_busy_time_out_mills,
            sync_timeout_ms=store_config.sync_flush_timeout,
        )
        self.end_burst = store.end_burst
        """Ends a burst of the store; what the dispatcher calls."""
        self.services: tuple[FastFailureService, ...] = ()
        """What has to run for as long as the broker does."""
        if config.broker_fast_failure_enable:
            self.end_burst, self.services = self.fast_failure.end_burst, (self.fast_failure,)
        self._send_hooks = SendHooks(
            hooks.send,
            broker_addr=broker_addr,
            region_id=config.region_id,
            base_count=config.commercial_base_count,
        )
        self._config = config
        self._message_size_max = store_config.max_message_size
        self._store = store
        self._message_put = message_put
        self._tables = tables
        self._store_host = store_host
        self._clock = clock
        self._randomness = randomness
        self._on_change: list[Callable[[], None]] = []

    def register(self, dispatcher: Dispatcher, *, decode: DecodeSend = decode_hot_send) -> None:
        """Take every code of the send side; the hot road only where no hook wants to hear of each send.

        ``decode`` is what the hot road decodes a header with.
        """
        config = self._config
        check = SendCheck(
            config=config,
            topic_config_manager=self._tables.topics,
            subscription_group_manager=self._tables.groups,
            clock=self._clock,
        )
        answers = SendAnswers(
            region_id=config.region_id,
            trace_on=config.trace_on,
            store_host=self._store_host,
            message_size_max=self._message_size_max,
        )
        self._on_change.append(lambda: answers.tell_trace(config.trace_on))
        outcome = SendOutcome(store=self._store, answers=answers)
        if not self._send_hooks:
            self._register_hot_road(dispatcher, check, answers, outcome, decode)
        SendMessageProcessor(
            store=self._store,
            message_put=self._message_put,
            subscription_group_manager=self._tables.groups,
            check=check,
            gate=self.gate,
            answers=answers,
            outcome=outcome,
            stats=self._tables.stats,
            hooks=self._send_hooks,
            config=config,
            randomness=self._randomness,
        ).register(dispatcher)
        SendBackProcessor(
            store=self._store,
            message_put=self._message_put,
            subscription_group_manager=self._tables.groups,
            check=check,
            gate=self.gate,
            outcome=outcome,
            stats=self._tables.stats,
            hooks=self.consume_hooks,
            config=config,
            randomness=self._randomness,
        ).register(dispatcher)
        ReplyMessageProcessor(
            store=self._store,
            message_put=self._message_put,
            find_channel=self._tables.producers.find_channel,
            check=check,
            gate=self.gate,
            answers=answers,
            outcome=outcome,
            stats=self._tables.stats,
            hooks=self._send_hooks,
            config=config,
            store_host=self._store_host,
            clock=self._clock,
            randomness=self._randomness,
        ).register(dispatcher)

    def settings_changed(self) -> None:
        """Let everybody look again at the settings in ``LIVE_KEYS``."""
        for listener in self._on_change:
            listener()

    def _register_hot_road(
        self,
        dispatcher: Dispatcher,
        check: SendCheck,
        answers: SendAnswers,
        outcome: SendOutcome,
        decode: DecodeSend,
    ) -> None:
        hot = HotSend(
            store=self._store,
            topic_config_manager=self._tables.topics,
            check=check,
            gate=self.gate,
            answers=answers,
            outcome=outcome,
            stats=self._tables.stats,
            cluster=self._config.broker_cluster_name,
            decode=decode,
        )
        self.gate.on_close(hot.forget)
        self._on_change.append(hot.forget)
        hot.register(dispatcher)

"""What a broker has for transactions, put together; who they are told about is passed in."""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.consumer_offset import ConsumerOffsetManager
from rocketpy.broker.message_put import MessagePut
from rocketpy.broker.processors.end_transaction import EndTransactionProcessor
from rocketpy.broker.producer_manager import ProducerManager
from rocketpy.broker.services.transaction_check import TransactionalMessageCheckService
from rocketpy.broker.topic_config import TopicConfigManager
from rocketpy.broker.transaction.open_transactions import OpenTransactions
from rocketpy.broker.transaction.transactional_message import TransactionalMessageService
from rocketpy.clock import Clock
from rocketpy.protocol.host import decode_host
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.message_store import MessageStore


class TransactionParts:
    """The table of open transactions, what changes it, and the service that asks about them."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store_config: MessageStoreConfig,
        store: MessageStore,
        message_put: MessagePut,
        topic_config_manager: TopicConfigManager,
        consumer_offset_manager: ConsumerOffsetManager,
        producer_manager: ProducerManager,
        clock: Clock,
        store_host: bytes,
    ) -> None:
        self.transactions = OpenTransactions()
        self.service = TransactionalMessageService(
            store=store, message_put=message_put, transactions=self.transactions, clock=clock, store_host=store_host
        )
        self.check_service = TransactionalMessageCheckService(
            config=config,
            store_config=store_config,
            store=store,
            transactions=self.transactions,
            service=self.service,
            topic_config_manager=topic_config_manager,
            consumer_offset_manager=consumer_offset_manager,
            producer_manager=producer_manager,
            clock=clock,
            peer=decode_host(store_host),
        )
        self._store_config = store_config
        self._store = store

    def register(self, dispatcher: Dispatcher, *, after_replies: Callable[[], None]) -> None:
        """Take the codes about transactions."""
        EndTransactionProcessor(
            store=self._store,
            transactions=self.transactions,
            service=self.service,
            message_size_max=self._store_config.max_message_size,
            is_slave=self._store_config.broker_role is BrokerRole.SLAVE,
            after_replies=after_replies,
        ).register(dispatcher)

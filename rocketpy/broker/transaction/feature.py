"""The transaction feature: ends of transactions, checks of open ones, and the table that both share.

Composition only; no logic.
"""

from __future__ import annotations

from functools import partial

from rocketpy.broker.acl.strict_accounts import StrictAccounts
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.broker.send.put import MessagePut
from rocketpy.broker.transaction.check import TransactionalMessageCheckService
from rocketpy.broker.transaction.end import EndTransactionProcessor
from rocketpy.broker.transaction.open_transactions import OpenTransactions
from rocketpy.broker.transaction.transactional_message import TransactionalMessageService, was_deleted
from rocketpy.protocol.host import decode_host
from rocketpy.remoting.dispatch import Dispatcher


class TransactionFeature(Feature):
    """The table of open transactions, the processor that ends them, and the service that checks them."""

    def __init__(self, context: BrokerContext, *, message_put: MessagePut) -> None:
        tables, accounts = context.tables, StrictAccounts(context.tables.accounts)
        self.transactions = OpenTransactions()
        self.service = TransactionalMessageService(
            store=context.store,
            message_put=message_put,
            transactions=self.transactions,
            clock=context.clock,
            store_host=context.store_host,
            queue_to_deliver=tables.topics.queue_to_deliver,
            is_deleted=partial(was_deleted, tables.deleted_topics, tables.topics),
        )
        self.check_service = TransactionalMessageCheckService(
            config=context.config,
            store_config=context.store_config,
            store=context.store,
            transactions=self.transactions,
            service=self.service,
            topic_config_manager=tables.topics,
            consumer_offset_manager=tables.offsets,
            producer_manager=tables.producers,
            accounts=accounts,
            clock=context.clock,
            peer=decode_host(context.store_host),
        )
        if not context.is_slave:  # a slave checks nothing, and ends nothing: it needs no table of open transactions
            self.services = (self.check_service,)
        self._accounts = accounts
        self._context = context

    def register(self, dispatcher: Dispatcher) -> None:
        """Register END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE."""
        EndTransactionProcessor(
            config=self._context.config,
            store=self._context.store,
            transactions=self.transactions,
            service=self.service,
            message_size_max=self._context.store_config.max_message_size,
            is_slave=self._context.is_slave,
            accounts=self._accounts,
        ).register(dispatcher)

"""What a broker has for transactions, put together; who they are told about is passed in."""

from __future__ import annotations

from rocketpy.broker.acl.strict_accounts import StrictAccounts
from rocketpy.broker.context import Ground
from rocketpy.broker.send.put import MessagePut
from rocketpy.broker.transaction.check import TransactionalMessageCheckService
from rocketpy.broker.transaction.end import EndTransactionProcessor
from rocketpy.broker.transaction.open_transactions import OpenTransactions
from rocketpy.broker.transaction.transactional_message import TransactionalMessageService
from rocketpy.protocol.host import decode_host
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.config import BrokerRole


class TransactionParts:
    """The table of open transactions, what changes it, and the service that asks about them."""

    def __init__(self, ground: Ground, *, message_put: MessagePut) -> None:
        tables, accounts = ground.tables, StrictAccounts(ground.tables.accounts)
        self.transactions = OpenTransactions()
        self.service = TransactionalMessageService(
            store=ground.store,
            message_put=message_put,
            transactions=self.transactions,
            clock=ground.clock,
            store_host=ground.store_host,
        )
        self.check_service = TransactionalMessageCheckService(
            config=ground.config,
            store_config=ground.store_config,
            store=ground.store,
            transactions=self.transactions,
            service=self.service,
            topic_config_manager=tables.topics,
            consumer_offset_manager=tables.offsets,
            producer_manager=tables.producers,
            asks_accounts=accounts.is_strict,
            clock=ground.clock,
            peer=decode_host(ground.store_host),
        )
        self._accounts = accounts
        self._ground = ground

    def register(self, dispatcher: Dispatcher) -> None:
        """Take the codes about transactions."""
        EndTransactionProcessor(
            store=self._ground.store,
            transactions=self.transactions,
            service=self.service,
            message_size_max=self._ground.store_config.max_message_size,
            is_slave=self._ground.store_config.broker_role is BrokerRole.SLAVE,
            accounts=self._accounts,
        ).register(dispatcher)

"""Send messages that are bound to local transactions: ``python transaction.py 127.0.0.1:9876``.

Consumers see a message when its transaction is committed. A broker asks about a transaction that got no verdict, which
takes up to about a minute by default (``transactionTimeOut``, ``transactionCheckInterval``). Prints which transaction
the broker asked about, and which messages were consumed.
"""

import sys

import trio

from rocketpy.client import (
    ConsumeFromWhere,
    ConsumerConfig,
    LocalTransactionState,
    Message,
    MessageExt,
    open_client,
)

stored: set[str] = set()  # in place of a table of a database


async def outcome_of(message: MessageExt) -> LocalTransactionState:
    print(f"the broker asks about {message.body.decode()}")
    is_stored = message.msg_id in stored
    return LocalTransactionState.COMMIT_MESSAGE if is_stored else LocalTransactionState.ROLLBACK_MESSAGE


async def main(name_server: str) -> None:
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with (
        open_client(name_server) as client,
        client.transaction_producer("transaction_producer", check=outcome_of) as producer,
    ):
        async with producer.transaction(Message("Transaction", b"order 1")) as transaction:
            stored.add(transaction.transaction_id)
            await transaction.commit()
        async with producer.transaction(Message("Transaction", b"order 2")) as transaction:
            await transaction.rollback()
        async with producer.transaction(Message("Transaction", b"order 3")) as transaction:
            stored.add(transaction.transaction_id)  # and no verdict, as if the program had ended here

        print("the broker asks about order 3 soon, by default within about a minute")
        consumed: list[str] = []
        async with client.consumer("transaction", "Transaction", config=config) as consumer:
            async for batch in consumer:
                consumed += [message.body.decode() for message in batch]
                await batch.done()
                if len(consumed) >= 2:
                    break
    print("consumed:", ", ".join(sorted(consumed)))


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])

"""Sign requests for a broker with accounts: ``python acl.py 127.0.0.1:9876``, or with an access key and a secret key.

The account needs ``PUB|SUB`` for the topic ``Acl`` and ``SUB`` for the group ``acl``, or to be an administrator. Prints
what an unsigned send gets, and the messages that are read with signatures. A broker without accounts takes both.
"""

import sys

import trio

from rocketpy.client import ClientConfig, Message, SessionCredentials, open_client, open_producer
from rocketpy.errors import BrokerError


async def main(name_server: str, access_key: str = "example-key", secret_key: str = "example-secret") -> None:
    async with open_producer(name_server, group="acl_unsigned") as producer:
        try:
            await producer.send(Message("Acl", b"unsigned"))
        except BrokerError as refusal:
            print("refused:", refusal.remark)
        else:
            print("taken without a signature")

    config = ClientConfig(credentials=SessionCredentials(access_key, secret_key))
    async with open_client(name_server, config=config) as client:
        async with client.producer("acl_producer") as producer:
            await producer.send(Message("Acl", b"signed"))
        async with (
            client.pull_consumer("acl") as consumer,
            consumer.open_messages("Acl", start="stored", until_end=True) as messages,
        ):
            async for message in messages:
                print(message.body.decode())
            await messages.commit()


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])

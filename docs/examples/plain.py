"""Send and read in plain code: ``python plain.py 127.0.0.1:9876``."""

import sys

from rocketpy.client import Message, blocking


def main(name_server: str) -> None:
    with blocking.open_client(name_server) as client:
        with client.producer("plain") as producer:
            for number in range(3):
                producer.send(Message("Plain", f"message {number}".encode()))
        with (
            client.pull_consumer("plain") as consumer,
            consumer.open_messages("Plain", start="beginning", until_end=True) as messages,
        ):
            for message in messages:
                print(message.body.decode())


if __name__ == "__main__":
    main(sys.argv[1])

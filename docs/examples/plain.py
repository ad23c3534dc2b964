"""Send and consume in plain code: ``python plain.py 127.0.0.1:9876``. Prints the messages."""

import sys

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, blocking


def main(name_server: str) -> None:
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    with blocking.open_client(name_server) as client:
        with client.producer("plain_producer") as producer:
            for number in range(3):
                producer.send(Message("Plain", f"message {number}".encode()))

        count = 0
        with client.consumer("plain", "Plain", config=config) as consumer:
            for batch in consumer:
                for message in batch:
                    print(message.body.decode())
                batch.done()
                count += len(batch)
                if count >= 3:
                    break


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The same as ``drain.py`` in plain code: ``python drain_plain.py 127.0.0.1:9876``. Prints the same."""

import os
import signal
import sys
import threading
import time

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, blocking

FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


def main(name_server: str) -> None:
    count = 0

    def handle(batch: blocking.MessageBatch) -> None:
        nonlocal count
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.5)
        count += len(batch)

    with blocking.open_client(name_server) as client:
        with client.producer("drain_plain_producer") as producer:
            for number in range(10):
                producer.send(Message("DrainPlain", f"message {number}".encode()))
        with client.consumer("drain_plain", "DrainPlain", config=FIRST) as consumer:
            stop = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: stop.set())
            running = threading.Thread(target=consumer.run, args=(handle,), kwargs={"tasks": 1})
            running.start()
            stop.wait()
            is_finished = consumer.drain(25)
            print("all finished" if is_finished else "some were cut off")
            running.join()
    print(f"{count} of 10 handled")


if __name__ == "__main__":
    main(*sys.argv[1:])

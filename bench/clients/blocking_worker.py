"""One row with our client in plain code. Arguments and output are those of ``ClientBench.java``."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, blocking

THREADS = 64
RESULTS_LATER = 1000
GROUP_CONFIG = ConsumerConfig(
    consume_message_batch_max_size=32, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
)


def main() -> None:
    """Run the row that the command line names."""
    row, namesrv, topic, warm, total, body_bytes = sys.argv[1:]
    if row == "idle":
        idle(namesrv, topic, int(warm), int(total))
        return
    if row == "consume":
        consume(namesrv, topic, int(warm), int(total))
        return
    send = {"sequence": send_in_sequence, "tasks": send_in_threads, "pipelined": send_pipelined}[row]
    body = b"x" * int(body_bytes)
    with blocking.open_producer(namesrv, group="bench_blocking") as producer:
        send(producer, topic, body, int(warm))
        processor, begin = time.process_time(), time.perf_counter()
        send(producer, topic, body, int(total))
        report(int(total), begin, processor)


def send_in_sequence(producer: blocking.Producer, topic: str, body: bytes, total: int) -> None:
    """Send, and wait for each answer."""
    for _ in range(total):
        producer.send(Message(topic, body))


def send_in_threads(producer: blocking.Producer, topic: str, body: bytes, total: int) -> None:
    """Send from 64 threads, each in sequence."""
    threads = [
        threading.Thread(target=send_in_sequence, args=(producer, topic, body, total // THREADS))
        for _ in range(THREADS)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def send_pipelined(producer: blocking.Producer, topic: str, body: bytes, total: int) -> None:
    """Send, and ask for each result a thousand messages later."""
    pending: deque[blocking.PendingSend] = deque()
    for _ in range(total):
        pending.append(producer.send_soon(Message(topic, body)))
        if len(pending) > RESULTS_LATER:
            pending.popleft().wait()
    while pending:
        pending.popleft().wait()


def consume(namesrv: str, topic: str, warm: int, total: int) -> None:
    """Consume as the only member of a group, 32 messages at a time."""
    counted, started = 0, (0.0, 0.0)
    with (
        blocking.open_client(namesrv) as client,
        client.consumer(f"bench_blocking_{time.time_ns()}", topic, config=GROUP_CONFIG) as consumer,
    ):
        for batch in consumer:
            before = counted
            counted += len(batch)
            if before < warm <= counted:
                started = time.process_time(), time.perf_counter()
            if counted >= warm + total:
                report(total, started[1], started[0])
                return


def idle(namesrv: str, topic: str, warm_s: int, seconds: int) -> None:
    """Have a producer that has sent a message, and a consumer that waits for more."""
    with blocking.open_client(namesrv) as client, client.producer("bench_idle") as producer:
        producer.send(Message(topic, b"x"))
        with client.consumer(f"bench_idle_{time.time_ns()}", topic) as consumer:
            consumer.wait_assigned()
            time.sleep(warm_s)
            processor, begin = time.process_time(), time.perf_counter()
            time.sleep(seconds)
            report(1, begin, processor)


def report(total: int, begin: float, processor: float) -> None:
    """Print the result."""
    seconds, used = time.perf_counter() - begin, time.process_time() - processor
    print(json.dumps({"messages": total, "seconds": seconds, "processor_s": used}), flush=True)


main()

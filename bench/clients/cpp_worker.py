"""One row with the C++ client behind PyPI's ``rocketmq``; run by the Python of an environment that has it.

Arguments and output are those of ``ClientBench.java``. The package has no batches that a broker takes as such. A row
ends after some seconds, with the messages of that time: its pipelined sends take milliseconds each.
"""

import json
import sys
import threading
import time

from rocketmq.client import Message, Producer, PushConsumer

TASKS = 64
WINDOW = 1000
SECONDS_MAX = 4.0
CHUNKS = 60
CONSUME_SECONDS_MAX = 12.0


def main() -> None:
    row, namesrv, topic, warm, total, body_bytes = sys.argv[1:]
    if row == "consume":
        consume(namesrv, topic, int(warm), int(total))
        return
    producer = Producer("bench_cpp_" + row)
    producer.set_namesrv_addr(namesrv)
    producer.start()
    send = {"sequence": send_in_sequence, "tasks": send_in_threads, "pipelined": send_pipelined}[row]
    body = "x" * int(body_bytes)
    send_in_time(send, producer, topic, body, int(warm), SECONDS_MAX / 4)
    processor, begin = time.process_time(), time.perf_counter()
    sent = send_in_time(send, producer, topic, body, int(total), SECONDS_MAX)
    report(sent, begin, processor)
    producer.shutdown()


def send_in_time(send, producer, topic, body, total, seconds):
    """Send as many messages as the time allows, at most these; return how many."""
    end, chunk, sent = time.perf_counter() + seconds, max(TASKS, total // CHUNKS), 0
    while sent < total and time.perf_counter() < end:
        send(producer, topic, body, chunk)
        sent += chunk // TASKS * TASKS if send is send_in_threads else chunk
    return sent


def send_in_sequence(producer, topic, body, total):
    for _ in range(total):
        message = Message(topic)
        message.set_body(body)
        producer.send_sync(message)


def send_in_threads(producer, topic, body, total):
    threads = [
        threading.Thread(target=send_in_sequence, args=(producer, topic, body, total // TASKS)) for _ in range(TASKS)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def send_pipelined(producer, topic, body, total):
    window, failures = threading.Semaphore(WINDOW), []

    def succeeded(result):
        window.release()

    def failed(failure):
        failures.append(failure)
        window.release()

    for _ in range(total):
        window.acquire()
        message = Message(topic)
        message.set_body(body)
        producer.send_async(message, succeeded, failed)
    for _ in range(WINDOW):
        window.acquire()
    if failures:
        raise failures[0]


def consume(namesrv, topic, warm, total):
    consumer = PushConsumer(f"bench_cpp_consume_{time.time_ns()}")
    consumer.set_namesrv_addr(namesrv)
    counted = [0]
    started = [0.0, 0.0]
    lock, done = threading.Lock(), threading.Event()

    def take(message):
        with lock:
            counted[0] += 1
            if counted[0] == warm:
                started[:] = time.process_time(), time.perf_counter()
            if counted[0] == warm + total:
                done.set()

    consumer.subscribe(topic, take)
    consumer.start()
    done.wait(CONSUME_SECONDS_MAX)
    if not started[1]:
        raise SystemExit(f"it has consumed {counted[0]} messages in {CONSUME_SECONDS_MAX:.0f} s")
    report(min(counted[0], warm + total) - warm, started[1], started[0])
    consumer.shutdown()


def report(total, begin, processor):
    seconds, used = time.perf_counter() - begin, time.process_time() - processor
    print(json.dumps({"messages": total, "seconds": seconds, "processor_s": used}), flush=True)


main()

"""The C++ client of the interop tests, through the C interface of its library, which PyPI's ``rocketmq`` carries.

Run with the Python of the environment that has the package:

    client.py produce namesrv= group= mode=sync|oneway|orderly
    client.py consume namesrv= group= topic= expression=* model=clustering|broadcasting
                      listener=concurrent|orderly names=

produce sends what stdin describes, a JSON object per line, as it comes, and prints a line per result; orderly takes
the line's "shard" as the queue. There is no batch: what the library sends as one, a broker takes for a single message,
Java's too. consume prints a line per message until stdin ends: of the user properties those that names= lists, as the
C interface cannot enumerate them, and of a body what precedes a zero byte. Both end by themselves after limit_s=60
seconds, with status 3. The C++ log goes to ``$HOME/logs``.
"""

import base64
import ctypes
import json
import os
import sys
import threading

from rocketmq import ffi
from rocketmq.ffi import dll

GIVEN = {
    "limit_s": "60",
    "mode": "sync",
    "expression": "*",
    "model": "clustering",
    "listener": "concurrent",
    "names": "",
}
PRINTING = threading.Lock()


def print_line(line):
    with PRINTING:
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
        sys.stdout.flush()


def check(status):
    if status != 0:
        raise SystemExit(f"status {status}: {(dll.GetLatestErrorMessage() or b'').decode(errors='replace')}")


def text_of(value):
    return value.decode("utf-8") if value else ""


def new_message(asked):
    handle = dll.CreateMessage(asked["topic"].encode())
    body = base64.b64decode(asked["body"])
    check(dll.SetByteMessageBody(handle, body, len(body)))
    if asked.get("tags"):
        check(dll.SetMessageTags(handle, asked["tags"].encode()))
    if asked.get("keys"):
        check(dll.SetMessageKeys(handle, asked["keys"].encode()))
    for name, value in (asked.get("properties") or {}).items():
        check(dll.SetMessageProperty(handle, name.encode(), value.encode()))
    return handle


def print_sent(index, result):
    line = {"event": "sent", "index": index}
    if result is not None:
        line["status"] = "SEND_OK" if result.sendStatus == 0 else str(result.sendStatus)
        line["msgId"] = result.msgId.decode()
        line["queueOffset"] = result.offset
    print_line(line)


def produce():
    producer = dll.CreateProducer(GIVEN["group"].encode())
    check(dll.SetProducerNameServerAddress(producer, GIVEN["namesrv"].encode()))
    check(dll.SetProducerSendMsgTimeout(producer, 60_000))
    check(dll.StartProducer(producer))
    for index, line in enumerate(sys.stdin.buffer):
        asked = json.loads(line)
        print_sent(index, send(producer, GIVEN["mode"], asked, new_message(asked)))
    check(dll.ShutdownProducer(producer))


def send(producer, mode, asked, message):
    result = ffi._CSendResult()
    if mode == "sync":
        check(dll.SendMessageSync(producer, message, ctypes.pointer(result)))
    elif mode == "oneway":
        check(dll.SendMessageOneway(producer, message))
        return None
    elif mode == "orderly":
        select = ffi.QUEUE_SELECTOR_CALLBACK(lambda size, _message, _argument: asked["shard"] % size)
        argument = ctypes.cast(ctypes.pointer(ctypes.c_int(0)), ctypes.c_void_p)  # it must not be null, though unused
        check(dll.SendMessageOrderly(producer, message, select, argument, 1, ctypes.pointer(result)))
    else:
        raise SystemExit(f"mode={mode}")
    return result


def consume():
    names = [each for each in GIVEN["names"].split(",") if each]

    def receive(_consumer, message):
        properties = {name: text_of(dll.GetMessageProperty(message, name.encode())) for name in names}
        print_line(
            {
                "event": "message",
                "topic": text_of(dll.GetMessageTopic(message)),
                "queueId": dll.GetMessageQueueId(message),
                "queueOffset": dll.GetMessageQueueOffset(message),
                "msgId": text_of(dll.GetMessageId(message)),
                "storeSize": dll.GetMessageStoreSize(message),
                "commitLogOffset": dll.GetMessageCommitLogOffset(message),
                "bornTimestamp": dll.GetMessageBornTimestamp(message),
                "storeTimestamp": dll.GetMessageStoreTimestamp(message),
                "reconsumeTimes": dll.GetMessageReconsumeTimes(message),
                "tags": text_of(dll.GetMessageTags(message)),
                "keys": text_of(dll.GetMessageKeys(message)),
                "properties": {name: value for name, value in properties.items() if value},
                "body": base64.b64encode(dll.GetMessageBody(message) or b"").decode(),
            }
        )
        return 0

    callback = ffi.MSG_CALLBACK_FUNC(receive)
    consumer = dll.CreatePushConsumer(GIVEN["group"].encode())
    check(dll.SetPushConsumerNameServerAddress(consumer, GIVEN["namesrv"].encode()))
    check(dll.SetPushConsumerMessageModel(consumer, 0 if GIVEN["model"] == "broadcasting" else 1))
    check(dll.SetPushConsumerThreadCount(consumer, 2))
    check(dll.Subscribe(consumer, GIVEN["topic"].encode(), GIVEN["expression"].encode()))
    orderly = GIVEN["listener"] == "orderly"
    check((dll.RegisterMessageCallbackOrderly if orderly else dll.RegisterMessageCallback)(consumer, callback))
    check(dll.StartPushConsumer(consumer))
    print_line({"event": "started"})
    while sys.stdin.buffer.read(1):
        pass
    check(dll.ShutdownPushConsumer(consumer))


def give_up():
    print("the time limit has passed", file=sys.stderr, flush=True)
    os._exit(3)


def main():
    GIVEN.update(each.split("=", 1) for each in sys.argv[2:])
    watch = threading.Timer(float(GIVEN["limit_s"]), give_up)
    watch.daemon = True
    watch.start()
    {"produce": produce, "consume": consume}[sys.argv[1]]()
    print_line({"event": "closed"})
    # The library's destructors race with its remaining threads: exit without them.
    os._exit(0)


if __name__ == "__main__":
    main()

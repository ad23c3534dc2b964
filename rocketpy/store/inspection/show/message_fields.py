"""A stored message as named values, for output as JSON or text. Names are RocketMQ's, spelled as everywhere here."""

from __future__ import annotations

import base64

from rocketpy.protocol.message import MessageExt


def message_fields(message: MessageExt) -> dict[str, object]:
    """Return everything of a message but its body."""
    return {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": message.physical_offset,
        "msg_id": message.msg_id,
        "offset_msg_id": message.offset_msg_id,
        "tags": message.tags,
        "keys": message.keys,
        "store_timestamp": message.store_timestamp,
        "store_host": message.store_host,
        "born_timestamp": message.born_timestamp,
        "born_host": message.born_host,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "store_size": message.store_size,
        "properties": message.properties,
    }


def body_fields(body: bytes, *, as_base64: bool = False) -> dict[str, object]:
    """Return a body as ``body`` if it is text, else (or if asked for) as ``body_base64``."""
    if not as_base64:
        try:
            return {"body": body.decode()}
        except UnicodeDecodeError:
            pass
    return {"body_base64": base64.b64encode(body).decode()}


def body_text(body: bytes, *, size_max: int | None, as_hex: bool) -> str:
    """Return a body for display: text if it is printable, else hex; shortened to about ``size_max`` bytes."""
    shown = body if size_max is None else body[:size_max]
    more = f"... ({len(body)} bytes)" if len(shown) < len(body) else ""
    if not as_hex:
        # A cut in the middle of a character is no reason for hex.
        text = shown.decode("utf-8", "ignore" if more else "replace")
        is_whole = len(text.encode()) + 3 >= len(shown) and bool(text) is bool(shown)
        if is_whole and text.isprintable() and "\ufffd" not in text:
            return text + more
    return f"0x{shown.hex()}{more}"

"""Bodies that hold the bytes of a record: what a dishonest producer sends to have them taken for a stored message."""

from __future__ import annotations

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_message
from rocketpy.protocol.topic_name import TRANS_HALF_TOPIC

HEAD_SIZE = 88
"""The bytes of a record in front of its body, with addresses of IPv4. An answer to a send tells where the log is."""


def forged_record(
    physical_offset: int,
    *,
    topic: str = TRANS_HALF_TOPIC,
    queue_id: int = 0,
    queue_offset: int = 0,
    body: bytes = b"forged",
    properties: dict[str, str] | None = None,
    born_host: str = "10.9.9.9:9",
    store_host: str = "127.0.0.1:10911",
    sys_flag: int = 0,
) -> bytes:
    """Return a record that is right in every byte but one thing: only its sender claims that it is one."""
    message = MessageExt(
        topic,
        body,
        {"REAL_TOPIC": "Secret", "REAL_QID": "0", "PGROUP": "P", **(properties or {})},
        queue_id,
        0,
        queue_offset,
        physical_offset,
        sys_flag,
        1_700_000_000_000,
        born_host,
        1_700_000_000_000,
        store_host,
        0,
        0,
        0,
        0,
        "",
    )
    return encode_message(message)


def body_posing_as_record(wrote_offset: int, **fields: object) -> tuple[bytes, int]:
    """Return a body to send when the log ends at ``wrote_offset``, and where the record in it will lie."""
    physical_offset = wrote_offset + HEAD_SIZE
    return forged_record(physical_offset, **fields), physical_offset  # type: ignore[arg-type]

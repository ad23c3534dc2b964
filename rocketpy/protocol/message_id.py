"""The two ids of a message, both upper-case hexadecimal of 32 digits, or 56 where an address is IPv6.

``offsetMsgId``, given by the broker: store host (address, port i32), physical offset i64.

``UNIQ_KEY``, given by the producer:

====== =====================================================================================
4 / 16 address of the client
2      the low 16 bits of its process id
4      a constant of the process
4      milliseconds since the local midnight that began the month
2      a counter
====== =====================================================================================

Length does not tell them apart. Nothing here looks at a clock, a process or an interface: the client passes them in.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from struct import Struct

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.host import HOST_V4_SIZE, HOST_V6_SIZE

OFFSET_MSG_ID_SIZES = (HOST_V4_SIZE + 8, HOST_V6_SIZE + 8)
UNIQ_KEY_SIZES = (4 + 12, 16 + 12)

_UNIQ_KEY_TAIL = Struct(">HIIH")
assert _UNIQ_KEY_TAIL.size == 12

# MessageClientIDSetter: a clock that steps back by less than this over the start of a month counts as standing still.
_STEP_BACK_MS_MAX = 1_000_000


def encode_offset_msg_id(store_host: bytes, physical_offset: int) -> str:
    """Return the broker's id of the record at ``physical_offset``; ``store_host`` is 8 or 20 bytes."""
    return (store_host + physical_offset.to_bytes(8, "big", signed=True)).hex().upper()


def decode_offset_msg_id(msg_id: str) -> tuple[bytes, int]:
    """Return store host (8 or 20 bytes) and physical offset.

    Raises :class:`~rocketpy.errors.RemoteProtocolError` unless ``msg_id`` is 32 or 56 hexadecimal digits: it may have
    come from a user or a peer.
    """
    content = _unhexed(msg_id, "offsetMsgId", OFFSET_MSG_ID_SIZES)
    return content[:-8], int.from_bytes(content[-8:], "big", signed=True)


@attrs.define(eq=False)
class UniqKeyFactory:
    """Makes the UNIQ_KEYs of one process; they stay unique as long as it makes fewer than 65536 per millisecond.

    ``zone`` is the time zone that months begin in; ``None`` is the machine's.
    """

    _address: bytes = attrs.field(kw_only=True)
    _process_id: int = attrs.field(kw_only=True)
    _constant: int = attrs.field(kw_only=True)
    _zone: tzinfo | None = attrs.field(kw_only=True, default=None)
    _prefix: str = attrs.field(init=False)
    _counter: int = attrs.field(init=False, default=0)
    # The month that ids are counted from; empty until the first one.
    _month_start_ms: int = attrs.field(init=False, default=0)
    _month_end_ms: int = attrs.field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        assert len(self._address) in (4, 16), len(self._address)
        tail = (self._process_id & 0xFFFF).to_bytes(2, "big") + (self._constant & 0xFFFF_FFFF).to_bytes(4, "big")
        self._prefix = (self._address + tail).hex().upper()

    def create(self, timestamp_ms: int) -> str:
        """Return the next id, made at the wall time ``timestamp_ms``."""
        if timestamp_ms >= self._month_end_ms:
            self._month_start_ms, self._month_end_ms = month_of(timestamp_ms, self._zone)
        elapsed_ms = timestamp_ms - self._month_start_ms
        if -_STEP_BACK_MS_MAX < elapsed_ms < 0:
            elapsed_ms = 0
        counter = self._counter
        self._counter = (counter + 1) & 0xFFFF
        return f"{self._prefix}{elapsed_ms & 0xFFFF_FFFF:08X}{counter:04X}"

    def create_many(self, timestamp_ms: int, count: int) -> list[str]:
        """Return the next ids, 1 to 65536 as they have one time; cheaper than one by one."""
        assert 1 <= count <= 0x1_0000, count
        first = self._counter
        head = self.create(timestamp_ms)[:-4]
        self._counter = (first + count) & 0xFFFF
        return [f"{head}{counter & 0xFFFF:04X}" for counter in range(first, first + count)]


def uniq_key_timestamp_ms(uniq_key: str, *, now_ms: int, zone: tzinfo | None = None) -> int:
    """Return about when ``uniq_key`` was made, taking it for the latest such moment that is not after ``now_ms``.

    Right for ids younger than a month. Raises :class:`~rocketpy.errors.RemoteProtocolError` when it is no UNIQ_KEY.
    """
    content = _unhexed(uniq_key, "UNIQ_KEY", UNIQ_KEY_SIZES)
    _, _, elapsed_ms, _ = _UNIQ_KEY_TAIL.unpack(content[-_UNIQ_KEY_TAIL.size :])
    month_start_ms, _ = month_of(now_ms, zone)
    if month_start_ms + elapsed_ms >= now_ms:
        month_start_ms, _ = month_of(month_start_ms - 1, zone)
    return int(month_start_ms + elapsed_ms)


def month_of(timestamp_ms: int, zone: tzinfo | None = None) -> tuple[int, int]:
    """Return when the month of a wall time begins and ends, local midnight both, in milliseconds since the epoch."""
    start = datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone(zone)
    start = start.replace(tzinfo=zone, day=1, hour=0, minute=0, second=0, microsecond=0)
    end = (start + timedelta(days=32)).replace(day=1)
    return int(start.timestamp()) * 1000, int(end.timestamp()) * 1000


def _unhexed(text: str, name: str, sizes: tuple[int, ...]) -> bytes:
    if len(text) // 2 in sizes and len(text) % 2 == 0 and text.isalnum():
        try:
            return bytes.fromhex(text)
        except ValueError:
            pass
    raise RemoteProtocolError(
        f"{name}: expected {' or '.join(str(2 * each) for each in sizes)} hexadecimal digits, found {text[:64]!r}"
    )

"""Codec of the ROCKETMQ (binary) encoding of a command's header. All numbers are big-endian and signed.

====  ======  =======================================================================
size  type    field
====  ======  =======================================================================
2     int16   code
1     int8    language
2     int16   version
4     int32   opaque
4     int32   flag
4+n   int32   remark: byte count, UTF-8; none and empty are both 0
4+m   int32   extFields: byte count of all entries, then entries until it is used up:
              int16 byte count, key in UTF-8; int32 byte count, value in UTF-8
====  ======  =======================================================================

Rule: a length that exceeds its block, and bytes left over after the last block, are a
:class:`~rocketpy.errors.RemoteProtocolError`.

Compatibility: RocketMQ reads an empty value as null; here it stays the empty text that the peer sent (the same as in
a JSON header), so a signature over it holds. RocketMQ also lets an entry run past its block and then takes the body
from a shifted position; here that is an error. Malformed UTF-8 is replaced by U+FFFD in both.
"""

from __future__ import annotations

from struct import Struct

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.codes import LanguageCode, SerializeType
from rocketpy.protocol.command import RemotingCommand

_FIXED = Struct(">hbhiii")  # code, language, version, opaque, flag, remark length
_INT32 = Struct(">i")
_INT16 = Struct(">h")
assert _FIXED.size == 17
HEADER_SIZE_MIN = _FIXED.size + _INT32.size
assert HEADER_SIZE_MIN == 21

KEY_SIZE_MAX = 2**15 - 1

EXT_FIELDS_MAX = 1000
"""Limit on the ext fields of a header, as in its JSON form."""

_LANGUAGES: dict[int, LanguageCode] = {int(language): language for language in LanguageCode}


def decode_rocketmq_header(header: bytes, body: bytes | None) -> RemotingCommand:
    """Return the command of a binary header; :class:`~rocketpy.errors.RemoteProtocolError` when it is malformed."""
    size = len(header)
    if size < HEADER_SIZE_MIN:
        raise RemoteProtocolError(f"binary header: expected at least {HEADER_SIZE_MIN} bytes, found {size}")
    code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(header)
    position = _FIXED.size
    if not 0 <= remark_size <= size - HEADER_SIZE_MIN:
        raise _bad_length("remark", remark_size, position, size - HEADER_SIZE_MIN)
    remark = header[position : position + remark_size].decode("utf-8", "replace") if remark_size else None
    position += remark_size
    (fields_size,) = _INT32.unpack_from(header, position)
    position += _INT32.size
    if fields_size != size - position:
        raise _bad_length("extFields", fields_size, position, size - position)
    return RemotingCommand(
        code,
        _decode_fields(header, position) if fields_size else None,
        body,
        remark,
        opaque,
        flag,
        _LANGUAGES.get(language),
        version,
        SerializeType.ROCKETMQ,
    )


def encode_rocketmq_header(command: RemotingCommand) -> bytes:
    """Return the binary header of ``command``.

    Raises :class:`~rocketpy.errors.LocalProtocolError` for what this form cannot carry: a code or version beyond
    int16, an unknown language, a key above 32767 bytes. Empty ext fields are written as none.
    """
    if command.language is None:
        raise LocalProtocolError("binary header: a language is needed, found none")
    remark = command.remark.encode("utf-8", "replace") if command.remark else b""
    fields = _encode_fields(command.ext_fields) if command.ext_fields else b""
    numbers = (command.code, command.language, command.version, command.opaque, command.flag, len(remark))
    if not (-0x8000 <= command.code <= 0x7FFF and -0x8000 <= command.version <= 0x7FFF):
        raise LocalProtocolError(
            f"binary header: expected code and version in int16, found {command.code} and {command.version}"
        )
    if not (-(2**31) <= command.opaque < 2**31 and -(2**31) <= command.flag < 2**31):
        raise LocalProtocolError(
            f"binary header: expected opaque and flag in int32, found {command.opaque} and {command.flag}"
        )
    return b"".join((_FIXED.pack(*numbers), remark, _INT32.pack(len(fields)), fields))


def _decode_fields(header: bytes, position: int) -> dict[str, str]:
    """Decode the entries from ``position`` to the end of the header; of a repeated key the last value counts."""
    fields: dict[str, str] = {}
    end = len(header)
    entries_left = EXT_FIELDS_MAX
    while position < end:
        if end - position < 2:
            raise RemoteProtocolError(f"binary header: extFields end inside a key length at {position} of {end}")
        key_size = header[position] << 8 | header[position + 1]
        position += 2
        if key_size > KEY_SIZE_MAX or key_size > end - position - 4:
            raise _bad_length("key", key_size, position, end - position - 4)
        key = header[position : position + key_size].decode("utf-8", "replace")
        position += key_size
        (value_size,) = _INT32.unpack_from(header, position)
        position += 4
        if not 0 <= value_size <= end - position:
            raise _bad_length(f"value of {key[:32]}", value_size, position, end - position)
        fields[key] = header[position : position + value_size].decode("utf-8", "replace")
        position += value_size
        entries_left -= 1
        if not entries_left and position < end:
            raise RemoteProtocolError(f"binary header: expected at most {EXT_FIELDS_MAX} entries of extFields")
    return fields


def _encode_fields(fields: dict[str, str]) -> bytes:
    parts: list[bytes] = []
    for key, value in fields.items():
        key_bytes = key.encode("utf-8", "replace")
        value_bytes = value.encode("utf-8", "replace")
        if len(key_bytes) > KEY_SIZE_MAX:
            raise LocalProtocolError(
                f"binary header: expected a key of at most {KEY_SIZE_MAX} bytes, found {len(key_bytes)}: {key[:32]}"
            )
        parts += (_INT16.pack(len(key_bytes)), key_bytes, _INT32.pack(len(value_bytes)), value_bytes)
    return b"".join(parts)


def _bad_length(what: str, found: int, position: int, available: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        f"binary header: length of {what} is {found}, the {max(available, 0)} bytes from {position} are not that many"
    )

"""Fast path of a producer: the frame of a send, straight from its fields.

The bytes are those of ``encode_frame(make_request(code, SendMessageRequestHeaderV2(...), body))`` (a property test
holds this module to it) for a third of the price: names, topic and template are legal names and need no escaping, and
the properties of a message are escaped once for all of its attempts.

Only JSON headers, and only for requests that nobody signs: a signature is one more field.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from rocketpy.errors import LocalProtocolError
from rocketpy.protocol.codes import MQ_VERSION
from rocketpy.protocol.frame.codec import FRAME_LENGTH_MAX
from rocketpy.protocol.frame.json_header import escaped
from rocketpy.protocol.properties import encode_properties

_PREFIX = Struct(">ii")  # total; serialize type 0 and header length
_END = f'"serializeTypeCurrentRPC":"JSON","version":{MQ_VERSION}}}'
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


class SendFields:
    """The fields of one send that all of its attempts share. ``properties`` are escaped, see :func:`escape_properties`.

    ``reconsume_times`` is 0 and ``max_reconsume_times`` is absent, as in what a producer sends itself.
    """

    __slots__ = ("_head", "_middle", "body")

    def __init__(
        self,
        *,
        head: str,
        topic: str,
        template: str,
        sys_flag: int,
        born_timestamp: int,
        flag: int,
        properties: str,
        tail: str,
        body: bytes,
    ) -> None:
        """Take what :class:`SendFrames` has prepared; LocalProtocolError for a ``flag`` that is no int32."""
        if not _INT32_MIN <= flag <= _INT32_MAX:
            raise LocalProtocolError(f"SendMessageRequestHeaderV2.h: expected int32, found {flag!r}")
        self._head = f"{head}{topic}{template}"
        self._middle = f'","f":"{sys_flag}","g":"{born_timestamp}","h":"{flag}","i":"{properties}{tail}'
        self.body = body

    def frame(self, queue_id: int, broker_name: str, opaque: int, *, flag: int = 0) -> bytes:
        """Return the frame of one attempt; ``flag`` is the command's. LocalProtocolError when it is too long."""
        header = (
            f'{self._head}{queue_id}{self._middle}{escaped(broker_name)}"}},"flag":{flag},"language":"PYTHON",'
            f'"opaque":{opaque},{_END}'
        ).encode("utf-8", "replace")
        header_size = len(header)
        total = 4 + header_size + len(self.body)
        if total > FRAME_LENGTH_MAX - 4:
            raise LocalProtocolError(f"frame: expected at most {FRAME_LENGTH_MAX} bytes, found {total + 4}")
        return b"".join((_PREFIX.pack(total, header_size), header, self.body))


class SendFrames:
    """Encoder for one producer: the fields that all of its sends share."""

    def __init__(
        self, *, producer_group: str, default_topic: str, default_topic_queue_nums: int, unit_mode: bool = False
    ) -> None:
        self._group = escaped(producer_group)
        self._template = f'","c":"{escaped(default_topic)}","d":"{default_topic_queue_nums}","e":"'
        self._heads: dict[int, str] = {}
        unit = "true" if unit_mode else "false"
        self._tails = {
            batch: f'","j":"0","k":"{unit}","m":"{"true" if batch else "false"}","n":"' for batch in (False, True)
        }

    def fields(
        self,
        code: int,
        topic: str,
        properties: str,
        body: bytes,
        *,
        sys_flag: int,
        born_timestamp: int,
        flag: int,
        batch: bool,
    ) -> SendFields:
        """Return what the attempts of a send share. ``topic`` is a legal name, ``properties`` are escaped."""
        head = self._heads.get(code)
        if head is None:
            head = self._heads[code] = f'{{"code":{int(code)},"extFields":{{"a":"{self._group}","b":"'
        return SendFields(
            head=head,
            topic=topic,
            template=self._template,
            sys_flag=sys_flag,
            born_timestamp=born_timestamp,
            flag=flag,
            properties=properties,
            tail=self._tails[batch],
            body=body,
        )


def escape_properties(properties: Mapping[str, str]) -> tuple[str, int]:
    """Return the text of properties as it stands in a JSON header, and its size in bytes as a record stores it."""
    joined = "".join((*properties, *properties.values()))
    if joined.isascii() and joined.isprintable() and '"' not in joined and "\\" not in joined:
        text = "\\u0002".join([f"{name}\\u0001{value}" for name, value in properties.items()])
        return text, len(joined) + max(0, 2 * len(properties) - 1)
    plain = encode_properties(properties)
    return escaped(plain), len(plain.encode("utf-8", "replace"))

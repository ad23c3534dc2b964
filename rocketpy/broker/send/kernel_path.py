"""Fast path for ordinary sends where the kernels are compiled: the header is read by comparison with the one before it.

It serves what :class:`~rocketpy.broker.send.fast_path.FastSend` serves, and leaves every header of another form to it:
:class:`~rocketpy.protocol.kernels.send_header.SendHeader` says which form it reads. The tests send the same requests
down all paths and compare records and responses.

Compatibility: ``SendMessageProcessor`` (4.9.8).
"""

from __future__ import annotations

from functools import partial
from typing import Final, final

from librt.strings import BytesWriter

from rocketpy.broker.send.answers import SendAnswers
from rocketpy.broker.send.collaborators import SendCollaborators
from rocketpy.broker.send.fast_batch import NewHeader
from rocketpy.broker.send.fast_path import FastSend
from rocketpy.broker.send.properties import NOT_PLAIN
from rocketpy.protocol.kernels.send_header import SendHeader
from rocketpy.protocol.kernels.send_ok import SendOkFrames
from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE
from rocketpy.remoting.connection import Connection
from rocketpy.store.results import PutMessageStatus

_PUT_OK: Final = PutMessageStatus.PUT_OK
_NOT_PLAIN: Final = frozenset([name.encode() for name in NOT_PLAIN])
_ONEWAY: Final = 2
_CLIENT_SYS_FLAGS: Final = ~TRANSACTION_COMMIT_TYPE
_NO_BODY: Final = b""


@final
class KernelSend:
    """Processor for plain sends. One per broker."""

    def __init__(self, shared: SendCollaborators, *, fast: FastSend, new_header: NewHeader) -> None:
        """Take the fast path that serves what the kernel does not read, and that knows which topics are plain.

        ``new_header`` returns the reader of a connection's headers: :func:`header_factory`.
        """
        store = shared.store
        self._fast = fast
        self._store = store
        self._put = store.put
        # That of a plug-in between broker and store. Otherwise the appender is called itself, at the cost of a C call.
        self._has_own_put = store.put != store.appender.put
        self._waits_for_storing = store.waits_for_storing
        self._appender = store.appender
        self._answers = shared.answers
        self._ok_frames = ok_frames(shared.answers)
        self._new_header = new_header

    def settings_changed(self) -> None:
        """Answer as the settings say now."""
        self._ok_frames = ok_frames(self._answers)

    def process(self, connection: Connection, header: bytes, body: bytes | None) -> int:
        """Serve a plain JSON V2 send; return False, without side effects, for any other."""
        sent = connection.last_send
        if sent is None:
            sent = connection.last_send = self._new_header()
        if sent.header is not header and not sent.read(header):
            return self._fast.process_fast(connection, header, body)
        plain = self._fast.plain_topic(sent.topic)
        if plain is None:
            return False
        queue_count, counter = plain
        queue_id: int = sent.queue_id
        if queue_id >= queue_count or (self._waits_for_storing and not connection.may_defer):
            return False
        is_answered = not sent.command_flag & _ONEWAY
        opaque: int = sent.opaque
        content = _NO_BODY if body is None else body
        sys_flag = sent.sys_flag & _CLIENT_SYS_FLAGS
        if self._has_own_put:
            status, physical_offset, queue_offset = self._put(
                sent.topic, queue_id, content, sent.properties, sent.tags_code, sent.index_keys, sent.flag, sys_flag,
                sent.born_timestamp, connection.born_host, sent.reconsume_times,
            )  # fmt: skip
        else:
            status, physical_offset, queue_offset = self._appender.put(
                sent.topic, queue_id, content, sent.properties, sent.tags_code, sent.index_keys, sent.flag, sys_flag,
                sent.born_timestamp, connection.born_host, sent.reconsume_times,
            )  # fmt: skip
        if status is not _PUT_OK:
            if is_answered:
                self._fast.refuse(connection, opaque, status, body, sent.properties)
            return True
        end_offset = self._appender.wrote_offset
        counter.count += 1
        counter.size_bytes += end_offset - physical_offset
        if self._waits_for_storing:
            if is_answered:
                connection.count_deferred()
                answer = partial(self._fast.answer_stored, connection, opaque, physical_offset, queue_id, queue_offset)
                self._store.wait_stored(end_offset, answer)
            else:
                self._store.flush_soon()
        elif is_answered:
            connection.reply_frame(self._ok_frames.frame(opaque, physical_offset, queue_id, queue_offset))
        return True


def header_factory(cluster_name: str) -> NewHeader:
    """Return a function that makes the reader of a connection's headers. All of them share one writer."""
    return partial(SendHeader, _NOT_PLAIN, f"\x02CLUSTER\x01{cluster_name}".encode(), BytesWriter())


def ok_frames(answers: SendAnswers) -> SendOkFrames:
    """Return a kernel that writes what ``answers.success`` returns."""
    template = answers.success_template.replace(b"%%", b"%")
    before_offset, _, rest = template.rpartition(b"%016X")  # text of the broker's own stands only before it
    _, _, rest = rest.partition(b"%d")
    _, _, rest = rest.partition(b"%d")
    before_opaque, _, after_opaque = rest.partition(b"%d")
    return SendOkFrames(before_offset, before_opaque, after_opaque)

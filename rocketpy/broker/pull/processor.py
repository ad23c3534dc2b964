"""PULL_MESSAGE: from a consumer's request to records, or to an entry in PullRequestHoldService.

Records in the page cache are returned in the same turn; cold ones are read by a separate task. A pull that finds
nothing and may wait is held, and its response is deferred.

A pull whose first message has a damaged unit or record is refused with the location, and the offset does not advance
until the store is repaired or the consumer's offset is set past the damage. Everything else is served.

A held pull ends with the permission of its account: it is checked again when the pull is tried after the accounts have
changed, and then all held pulls are tried.

An unexpected failure while a held pull is tried (a hook, a bug) is SYSTEM_ERROR for that pull only, as the dispatcher
does it for pulls that are answered at once or by a task.

Compatibility: ``PullMessageProcessor`` (4.9.8). Messages that a held pull has examined without a match are
not examined again, unless the group's subscription has changed meanwhile. A pull is held for SUSPEND_MS_MAX at most,
whatever it asks for; the memory of held pulls is bounded, and a pull beyond that is refused with SYSTEM_BUSY.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from rocketpy import BUILD
from rocketpy.broker.acl.needs import SUB_TOPIC_AND_GROUP
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.hooks import COMMERCIAL_OWNER, SIZE_PER_COUNT, ConsumeHooks, ConsumeMessageContext, namespace_of
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.monitoring.broker_stats_manager import BrokerStatsManager
from rocketpy.broker.pull.answers import FoundHead, encode_found_answer, encode_pull_answer, pull_response_code
from rocketpy.broker.pull.checks import PullCheck
from rocketpy.broker.pull.long_polling import PullRequestHoldService
from rocketpy.broker.pull.offset_moved import OffsetMovedEvents
from rocketpy.broker.pull.request import PullHeader, PullRequest
from rocketpy.errors import LocalProtocolError, RequestError
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import ONEWAY_FLAG, RESPONSE_FLAG, RemotingCommand
from rocketpy.protocol.fast_path_headers import FAST_HEADER_ERRORS, access_key_of, decode_fast_pull
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.protocol.signature import ACCESS_KEY
from rocketpy.protocol.sysflag import PULL_COMMIT_OFFSET_FLAG, PULL_SUSPEND_FLAG
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.deferred import DEFERRED, Deferred
from rocketpy.remoting.dispatch import TOOK_LONG, Dispatcher
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import GetMessageResult, MessageFilter

if TYPE_CHECKING:  # without access control, and where kernels are not compiled, nothing loads them
    from rocketpy.broker.acl.session import HeldPermissions
    from rocketpy.protocol.kernels.pull_header import PullForms

SUSPEND_MS_MAX = 300_000
"""Longest time that a pull is held. RocketMQ's own clients ask for 15 to 20 seconds."""

_FAILED = "the pull failed unexpectedly, the log of the broker says why"
_TOO_MANY_READS = "[OVERLOAD]too many reads from disk are running, try again in a while"

_store_error_log = logging.getLogger("rocketpy.store.error")


class PullMessageProcessor:
    """Processor of PULL_MESSAGE. One per broker."""

    def __init__(
        self,
        *,
        store: MessageStore,
        store_config: MessageStoreConfig,
        hold_service: PullRequestHoldService,
        check: PullCheck,
        consumer_offset_manager: ConsumerOffsetManager,
        offset_moved_events: OffsetMovedEvents,
        config: BrokerConfig,
        stats: BrokerStatsManager,
        hooks: ConsumeHooks,
        accounts: HeldPermissions | None,
    ) -> None:
        """``accounts`` is None without access control."""
        self._store = store
        self._hold_service = hold_service
        self._check = check
        self._consumer_offset_manager = consumer_offset_manager
        self._offset_moved_events = offset_moved_events
        self._config = config
        self._stats = stats
        self._hooks = hooks
        self._accounts = accounts
        self._is_slave = store_config.broker_role is BrokerRole.SLAVE
        self._corrects_offsets = not self._is_slave or store_config.offset_check_in_slave
        self._found_head = FoundHead()
        self._head_of = self._found_head.of
        self._new_forms = _new_forms()

    def register(self, dispatcher: Dispatcher) -> None:
        """Register for PULL_MESSAGE; the fast path only without hooks, because it does not read the owner."""
        dispatcher.register(RequestCode.PULL_MESSAGE, self.process, needs=SUB_TOPIC_AND_GROUP)
        if not self._hooks:
            dispatcher.register_fast_path(RequestCode.PULL_MESSAGE, self.process_fast)

    def process_fast(self, connection: Connection, header: bytes, body: bytes | None) -> int:
        """Serve a JSON pull that decodes in one step; return False, without side effects, for any other.

        TOOK_LONG when there is a filter: it may have to be parsed, and may match hundreds of messages.
        """
        forms = connection.kept_pulls
        form = None if forms is None else forms.find(header)
        if form is not None:
            fields, flag, opaque = form.fields, form.flag, int(form.opaque)
            group, topic, queue_id, sys_flag = form.consumer_group, form.topic, int(form.queue_id), form.sys_flag
            queue_offset, commit_offset = int(form.queue_offset), int(form.commit_offset)
            max_msg_nums = form.max_msg_nums
        else:
            try:
                request = decode_fast_pull(header)
            except FAST_HEADER_ERRORS:
                return False
            fields, flag, opaque = request.ext_fields, request.flag, request.opaque
            group, topic, queue_id, sys_flag = fields.consumer_group, fields.topic, fields.queue_id, fields.sys_flag
            queue_offset, commit_offset = fields.queue_offset, fields.commit_offset
            max_msg_nums = fields.max_msg_nums
            if forms is None and self._new_forms is not None:
                forms = connection.kept_pulls = self._new_forms()
            if forms is not None:
                forms.keep(header, fields, flag)
        is_oneway = bool(flag & ONEWAY_FLAG)
        try:
            check = self._check
            group_config = check.group_config(group)
            check.check_topic(connection, topic, queue_id)
            # Neither queue nor offsets count for it, so those of the kept header may be others.
            message_filter = check.message_filter(fields, group_config)
            if sys_flag & PULL_COMMIT_OFFSET_FLAG and not self._is_slave:
                self._commit_offset(connection, group, topic, queue_id, commit_offset)
            if not is_oneway:
                frame = self._quick_answer(
                    group, topic, queue_id, queue_offset, max_msg_nums, opaque, group_config, message_filter
                )
                if frame is not None:
                    connection.reply_frame(frame)
                    return True if message_filter is None else TOOK_LONG
            if form is not None:
                fields = decode_fast_pull(header).ext_fields  # its own, which a pull that is held keeps
            pull = self._serve(connection, fields, opaque, SerializeType.JSON, is_oneway, group_config, message_filter)
        except RequestError as refusal:
            if not is_oneway:
                connection.reply(
                    RemotingCommand(
                        code=refusal.response_code, remark=refusal.remark, opaque=opaque, flag=RESPONSE_FLAG
                    )
                )
            return TOOK_LONG
        if pull.is_deferred:
            connection.count_deferred()
            if self._accounts is not None:
                pull.permission = self._accounts.held_permission(connection, access_key_of(header))
        return True if pull.message_filter is None else TOOK_LONG

    def process(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | Deferred | None:
        """Serve any pull; RequestError when it is refused."""
        header = read_header(request, PullMessageRequestHeader)
        owner = (request.ext_fields or {}).get(COMMERCIAL_OWNER)
        check = self._check
        group_config = check.group_config(header.consumer_group)
        check.check_topic(connection, header.topic, header.queue_id)
        message_filter = check.message_filter(header, group_config)
        if header.sys_flag & PULL_COMMIT_OFFSET_FLAG and not self._is_slave:
            self._commit_offset(connection, header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        pull = self._serve(
            connection,
            header,
            request.opaque,
            request.serialize_type,
            request.is_oneway,
            group_config,
            message_filter,
            owner,
        )
        if not pull.is_deferred:
            return None
        if self._accounts is not None:
            access_key = (request.ext_fields or {}).get(ACCESS_KEY)
            pull.permission = self._accounts.held_permission(connection, access_key)
        return DEFERRED

    # ---- private --------------------------------------------------------------------------------------------------

    def _quick_answer(
        self,
        group: str,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_msg_nums: int,
        opaque: int,
        group_config: SubscriptionGroupConfig,
        message_filter: MessageFilter | None,
    ) -> bytes | None:
        """Fast path of :meth:`_serve`: the response frame in JSON, with messages or with NO_MATCHED_MESSAGE.

        None, without side effects, if the store does not have the messages at hand, or the filter has no kernel: then
        the general path answers, or holds the pull.
        """
        broker_id = group_config.broker_id if self._config.slave_read_enable else 0
        head = self._found_head
        head.opaque, head.broker_id = opaque, broker_id
        if message_filter is None:
            found = self._store.get_plain_nowait(topic, queue_id, queue_offset, max_msg_nums, self._head_of)
        else:
            found = self._store.get_filtered_nowait(topic, queue_id, queue_offset, max_msg_nums, message_filter)
        if found is None:
            return None
        if found.message_count:
            self._stats.inc_pulled(group, topic, queue_id, found, self._store.appender.wrote_offset)
        if message_filter is None:
            return found.body
        if found.message_count:
            before = head.of(found.next_begin_offset, found.min_offset, found.max_offset, len(found.body))
            if before is not None:
                return before + found.body
        try:
            return encode_found_answer(opaque, found, broker_id)
        except LocalProtocolError as failure:
            raise _too_long(failure) from failure

    def _serve(
        self,
        connection: Connection,
        header: PullHeader,
        opaque: int,
        serialize_type: SerializeType,
        is_oneway: bool,
        group_config: SubscriptionGroupConfig,
        message_filter: MessageFilter | None,
        owner: str | None = None,
    ) -> PullRequest:
        """Answer at once, or arrange for a later answer and set ``is_deferred`` in the pull."""
        topic, queue_id, queue_offset, sys_flag = header.topic, header.queue_id, header.queue_offset, header.sys_flag
        may_suspend = sys_flag & PULL_SUSPEND_FLAG and header.suspend_timeout_millis > 0 and connection.may_defer
        suspend_ms = min(header.suspend_timeout_millis, SUSPEND_MS_MAX)
        if not self._config.long_polling_enable:
            suspend_ms = self._config.short_polling_time_mills
        pull = PullRequest(
            connection,
            opaque,
            serialize_type,
            is_oneway,
            header,
            queue_offset,
            message_filter,
            group_config,
            trio.current_time() + suspend_ms / 1000 if may_suspend else 0.0,
            self._resume,
            self._fail,
            owner,
        )
        result = self._store.get_message_nowait(topic, queue_id, queue_offset, header.max_msg_nums, message_filter)
        if result is None:
            if not connection.answer_later(pull, self._read_cold, pull):
                raise RequestError(ResponseCode.SYSTEM_BUSY, _TOO_MANY_READS)
            pull.is_deferred = True
            return pull
        if result.damage:
            raise RequestError(ResponseCode.SYSTEM_ERROR, _damaged(result))
        code = pull_response_code(result.status, queue_offset)
        if code == ResponseCode.PULL_NOT_FOUND and may_suspend:
            self._check.keep(pull)
            config = self._config
            if not self._hold_service.suspend(pull, config.held_pull_bytes_max, config.connection_held_pull_bytes_max):
                raise self._no_room(pull)
            pull.is_deferred = True
            return pull
        frame = self._answer(pull, code, result)
        if not is_oneway:
            connection.reply_frame(frame)
        return pull

    def _commit_offset(self, connection: Connection, group: str, topic: str, queue_id: int, commit_offset: int) -> None:
        """Commit the offset in a pull if UPDATE_CONSUMER_OFFSET would accept it; the pull is served in any case.

        Compatibility: RocketMQ stores a negative offset, and then answers that the group has none.
        """
        manager = self._consumer_offset_manager
        if commit_offset >= 0 and manager.has_room_for(group, topic, queue_id):
            manager.commit_offset(connection.peer, group, topic, queue_id, commit_offset)

    def _no_room(self, pull: PullRequest) -> RequestError:
        """Return the refusal when held pulls keep too much memory; the consumer retries after a pause."""
        hold_service, config = self._hold_service, self._config
        if hold_service.held_bytes + pull.held_bytes > config.held_pull_bytes_max:
            what, key = "all consumers", "heldPullBytesMax"
            held_bytes, held_bytes_max = hold_service.held_bytes, config.held_pull_bytes_max
        else:
            what, key = "this connection", "connectionHeldPullBytesMax"
            held_bytes = hold_service.held_bytes_of(pull.connection)
            held_bytes_max = config.connection_held_pull_bytes_max
        return RequestError(
            ResponseCode.SYSTEM_BUSY,
            f"[OVERLOAD]the pulls of {what} that wait here keep {held_bytes} bytes, this one {pull.held_bytes}; "
            f"{key} is {held_bytes_max}",
        )

    def _resume(self, pull: PullRequest, is_final: bool) -> bool:
        """Try a held pull again; return True when it was answered or is left to a task."""
        header = pull.header
        try:
            self._check_again(pull)
        except RequestError as refusal:
            self._refuse_deferred(pull, refusal.response_code, refusal.remark)
            return True
        result = self._store.get_message_nowait(
            header.topic, header.queue_id, pull.queue_offset, header.max_msg_nums, pull.message_filter
        )
        if result is None:
            if not pull.connection.answer_later(pull, self._read_cold, pull):
                self._refuse_deferred(pull, ResponseCode.SYSTEM_BUSY, _TOO_MANY_READS)
            return True
        if result.damage:
            self._refuse_deferred(pull, ResponseCode.SYSTEM_ERROR, _damaged(result))
            return True
        code = pull_response_code(result.status, pull.queue_offset)
        if not is_final and code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
            if result.next_begin_offset >= result.max_offset:
                pull.queue_offset = result.next_begin_offset
                return False
            code = ResponseCode.PULL_RETRY_IMMEDIATELY  # one read is bounded: the consumer asks for the rest
        if code == ResponseCode.PULL_NOT_FOUND and pull.queue_offset != header.queue_offset:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY  # makes the consumer adopt the new offset
        self._answer_deferred(pull, code, result)
        return True

    def _fail(self, pull: PullRequest) -> None:
        """Answer a held pull that failed unexpectedly."""
        self._refuse_deferred(pull, ResponseCode.SYSTEM_ERROR, _FAILED)

    def _check_again(self, pull: PullRequest) -> None:
        """Repeat the checks of a held pull and update its filter; RequestError when it may no longer be served."""
        check, header = self._check, pull.header
        if self._accounts is not None and pull.permission is not None:
            named = {"topic": header.topic, "consumerGroup": header.consumer_group}
            request = RemotingCommand(RequestCode.PULL_MESSAGE, named)
            self._accounts.check_held(pull.connection, request, pull.permission)
        group_config = check.group_config(header.consumer_group)
        check.check_topic(pull.connection, header.topic, header.queue_id)
        message_filter = check.message_filter_again(pull, group_config)
        pull.group_config = group_config
        if message_filter is not pull.message_filter and message_filter != pull.message_filter:
            pull.message_filter = message_filter
            pull.queue_offset = header.queue_offset  # messages that did not match may match now

    async def _read_cold(self, pull: PullRequest) -> bytes:
        """Read cold records; a worker thread waits for the disk, the event loop does not."""
        header = pull.header
        began = trio.current_time()
        result = await self._store.get_message(
            header.topic, header.queue_id, pull.queue_offset, header.max_msg_nums, pull.message_filter
        )
        if result.body:
            waited_ms = int((trio.current_time() - began) * 1000)
            self._stats.inc_pull_wait(header.consumer_group, header.topic, header.queue_id, waited_ms)
        if result.damage:
            raise RequestError(ResponseCode.SYSTEM_ERROR, _damaged(result))
        return self._answer(pull, pull_response_code(result.status, pull.queue_offset), result)

    def _answer_deferred(self, pull: PullRequest, code: int, result: GetMessageResult) -> None:
        try:
            frame = self._answer(pull, code, result)
        except RequestError as refusal:
            self._refuse_deferred(pull, refusal.response_code, refusal.remark)
            return
        pull.connection.answer_deferred(pull, frame)

    def _refuse_deferred(self, pull: PullRequest, code: int, remark: str) -> None:
        refusal = RemotingCommand(
            code=code,
            remark=remark,
            opaque=pull.opaque,
            flag=RESPONSE_FLAG,
            serialize_type=pull.serialize_type,
        )
        pull.connection.answer_deferred(pull, encode_frame(refusal))

    def _answer(self, pull: PullRequest, code: int, result: GetMessageResult) -> bytes:
        """Count a pull and return its response frame; RequestError when the response is longer than a frame."""
        broker_id = 0
        if self._config.slave_read_enable:
            group_config = pull.group_config
            is_slow = result.suggest_pulling_from_slave
            broker_id = group_config.which_broker_when_consume_slowly if is_slow else group_config.broker_id
        if code == 0:
            log_end = self._store.appender.wrote_offset
            header = pull.header
            self._stats.inc_pulled(header.consumer_group, header.topic, header.queue_id, result, log_end)
        elif code == ResponseCode.PULL_OFFSET_MOVED:
            if self._corrects_offsets:
                self._offset_moved_events.moved(pull.header, result.next_begin_offset)
            else:
                code, broker_id = ResponseCode.PULL_RETRY_IMMEDIATELY, pull.group_config.broker_id
        if self._hooks:
            self._hooks.pulled(_context(pull, code, result, self._config.commercial_base_count))
        try:
            return encode_pull_answer(pull, code, result, broker_id)
        except LocalProtocolError as failure:
            raise _too_long(failure) from failure


def _new_forms() -> Callable[[], PullForms] | None:
    if not BUILD.has_kernels:
        return None
    from rocketpy.protocol.kernels.pull_header import PullForms

    return PullForms


def _too_long(failure: LocalProtocolError) -> RequestError:
    return RequestError(ResponseCode.SYSTEM_ERROR, f"the answer cannot be sent: {failure}")


def _context(pull: PullRequest, code: int, result: GetMessageResult, base_count: int) -> ConsumeMessageContext:
    """Return the hook context of a response: messages counted in units of 64 KiB, or one empty poll."""
    context = ConsumeMessageContext(
        namespace=namespace_of(pull.header.consumer_group),
        consumer_group=pull.header.consumer_group,
        topic=pull.header.topic,
        queue_id=pull.header.queue_id,
        commercial_owner=pull.owner,
        commercial_rcv_stats="RCV_EPOLLS",
        commercial_rcv_times=1,
    )
    if code == 0:
        context.commercial_rcv_stats = "RCV_SUCCESS"
        context.commercial_rcv_times = _count_by_size(result.body) * base_count
        context.commercial_rcv_size = len(result.body)
    return context


def _count_by_size(body: bytes) -> int:
    count = position = 0
    while position < len(body):
        size = int.from_bytes(body[position : position + 4])
        count += math.ceil(size / SIZE_PER_COUNT)
        position += size
    return count


def _damaged(result: GetMessageResult) -> str:
    """Log the damage, and return the remark for it."""
    _store_error_log.error("a message cannot be served: %s", result.damage)
    return f"the message at this offset cannot be served: {result.damage}"

"""Every place that decodes what a peer sent has a bound: found by reading the code, so that a new one is found too.

A decoder is a function of a table here, by name. Where it is called or handed on, the call has the argument that
bounds it (``is_bounded=True``, ``count_max=...``), or the place has its reason in :data:`REASONS`: what bounds the size
of what it is given, or that it is run off the event loop. A reason whose place has gone fails too.

The table is complete in two ways. What parses bytes (JSON, structures, compressed streams) is in it, so a new function
that uses one of these is a place without a reason. And each public function of ours whose name says that it decodes is
in it, so its callers are looked at as well.

It cannot see a parser that is written by hand, by ``split`` or a regular expression.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parent.parent / "rocketpy"

FOREIGN = frozenset(
    {"loads", "Decoder", "decompress", "decompressobj", "parseJson", "iter_unpack", "unpack", "unpack_from"}
)
"""Names of the libraries' functions that parse bytes; :func:`rocketpy.protocol.fastjson.loads` is one of them."""

OURS = frozenset(
    {
        "decode_batch_body",
        "decode_body",
        "decode_config_table",
        "decode_delay_progress",
        "loads_answer",
        "loads_file",
        "loads_integer_keys",
        "decode_message",
        "decode_messages",
        "decode_offset_table",
        "decode_peer_body",
        "decode_properties",
        "decode_properties_text",
        "decode_record_properties",
        "read_properties",
        "read_traces",
    }
)
"""Our functions whose cost grows with what they are given."""

BOUNDED = {
    "decode_command": "a header has at most HEADER_LENGTH_MAX bytes and EXT_FIELDS_MAX fields",
    "decode_compressed": "tests only; compressed_slices is bounded",
    "decode_fast_batch": "a header, and one without nested values",
    "decode_fast_pull": "a header, and one without nested values",
    "decode_fast_send": "a header, and one without nested values",
    "decode_frame": "what follows the first frame is an error; decode_command",
    "decode_host": "8 or 20 bytes",
    "decode_json_header": "decode_command",
    "decode_ops": "op messages of the broker's own",
    "decode_offset_msg_id": "32 or 56 digits",
    "decode_rocketmq_header": "decode_command",
    "decode_texts": "a header",
    "decode_value": "what was parsed by one of the others",
    "decode_batch": "a header that the fast path has read",
    "decode_send": "a header that the fast path has read",
    "decode_record": "a record of an archive's runs",
    "decode_send_response": "the fields of a header",
}
"""Functions that say that they decode, and whose cost is bounded whatever they are given."""

ARGUMENTS = {
    "loads": "is_bounded",
    "decode_body": "is_bounded",
    "decode_peer_body": "bytes_max",
    "decode_messages": "count_max",
    "decode_message": "unpacked_max",
    "decompress": "size_max",
}
"""The argument that bounds a call."""

OWN_FILES = {
    "spark/columns/": "records of files, in batches of bounded size; in tasks of Spark",
    "spark/files/": "files of a store, in pieces of bounded size; in tasks of Spark",
    "spark/options/": "options of the program's own",
    "spark/pipelines/archive": "files of an archive, in a driver of Spark",
    "spark/pipelines/audit/": "files of a store, in tasks of Spark",
    "spark/pipelines/": "messages in tasks of Spark",
    "spark/sink/": "rows of the program's own",
    "spark/stream/": "progress that this program has written",
    "store/": "records, units and tables of the store; store/ha has rules of its own",
    "testing/": "for tests",
    "remoting/tls/": "certificates that this program makes",
}
READ_ALL_THE_SAME = ("store/ha/", "spark/pipelines/live_offsets.py")
"""Within these folders, what reads what peers send."""

WORKER = "off the event loop, by run_decoder: "
SMALL = "a structure of fixed size, or one whose length is checked against what is there: "

_REASONS: dict[str, tuple[str, ...]] = {
    SMALL + "fields at fixed places": (
        "broker/monitoring/counters.py GroupGetCounter.fall unpack_from",
        "broker/monitoring/counters.py last_record unpack_from",
        "broker/transaction/readable.py readable_messages unpack_from",
        "protocol/java_hash.py _unsigned_hash unpack",
        "protocol/message_id.py uniq_key_timestamp_ms unpack",
        "protocol/selector/bloom.py murmur3_x64_64 iter_unpack",
        "protocol/selector/bloom.py murmur3_x64_64 unpack",
        "protocol/stored_message.py _measure unpack_from",
        "protocol/stored_message.py check_message unpack_from",
        "protocol/stored_message.py decode_message unpack_from",
        "protocol/stored_message.py decode_record_properties unpack_from",
        "store/ha/record_digest.py _begins unpack_from",
        "store/ha/recorded_log.py _item_size unpack_from",
        "store/ha/tail_cut.py _has_record unpack",
    ),
    SMALL + "the length of a frame, at most FRAME_LENGTH_MAX, FRAME_BODY_MAX between stores": (
        "protocol/frame/codec.py FrameReader.next_frames unpack",
        "protocol/frame/codec.py FrameReader.next_frames unpack_from",
        "protocol/frame/codec.py _has_whole_frame unpack_from",
        "store/ha/protocol.py FrameReader.receive unpack",
        "store/ha/protocol.py ReportReader.receive iter_unpack",
        "store/ha/verified_stream.py VerifiedStream._take_one unpack_from",
    ),
    "a header of HEADER_LENGTH_MAX bytes, flat and with EXT_FIELDS_MAX fields": (
        "broker/acl/fast_path_guards.py (module) Decoder",
        "protocol/fast_path_headers.py (module) Decoder",
        "protocol/frame/json_header.py (module) Decoder",
        "protocol/frame/rocketmq_header.py _decode_fields unpack_from",
        "protocol/frame/rocketmq_header.py decode_rocketmq_header unpack_from",
    ),
    "properties of a send: PROPERTIES_TEXT_MAX characters, of a batch BATCH_PROPERTIES_MAX": (
        "broker/acl/needed_permissions.py _add_named_queues decode_properties",
        "broker/hooks.py SendHooks.before decode_properties",
        "broker/send/fast_batch.py _shared_of_batch decode_properties",
        "broker/send/processor.py SendMessageProcessor._traced decode_properties",
        "broker/send/properties.py _alike_meanings iter_unpack",
        "broker/send/properties.py _client_text decode_properties",
        "broker/send/properties.py _own_properties decode_properties",
        "broker/send/properties.py client_properties decode_properties",
        "broker/send/properties.py stored_batch decode_properties",
        "protocol/property_columns.py _decoded decode_properties",
    ),
    "properties of a record: 2 bytes of length": (
        "broker/pull/message_filter.py RetryMessageFilter.is_matched_by_commit_log decode_record_properties",
        "broker/pull/message_filter.py Sql92MessageFilter.is_matched_by_commit_log decode_record_properties",
        "protocol/stored_message.py CheckedMessage.properties decode_properties",
        "protocol/stored_message.py decode_message decode_properties",
        "protocol/stored_message.py decode_record_properties decode_properties",
        "store/ha/following_log.py FollowingCommitLog._few_plain decode_properties",
    ),
    "properties in a field of a header; PROPERTIES_TEXT_MAX": ("client/replies.py _properties_of decode_properties",),
    "a batch is prepared in slices; batchMessagesMax": (
        "protocol/batch.py _split_alike unpack",
        "protocol/batch.py _split_alike unpack_from",
        "protocol/batch.py _split_one_by_one unpack_from",
    ),
    "messages of the program's own": (
        "client/producer/send_request.py SendRequest.hook_messages decode_batch_body",
        "client/producer/send_request.py SendRequest.hook_messages decode_properties",
    ),
    "a file of the program's own": (
        "broker/delay/offsets.py DelayOffsetManager.load decode_delay_progress",
        "broker/metadata/offsets.py _decode_file decode_offset_table",
        "broker/metadata/stored_table.py _decoded loads_file",
        "client/consumer/offsets/local_offset_store.py _parsed loads_file",
        "protocol/fastjson/file_text.py loads_file loads",
        "broker/live_settings.py LiveSettings._check_text read_properties",
        "nameserver/kv_config.py _decoded decode_config_table",
        "nameserver/kv_config.py decode_config_table loads_file",
        "properties_text.py rewritten_properties read_properties",
        "settings.py load_settings decode_properties_text",
        "settings.py settings_from_text read_properties",
        "spark/live/positions.py _brokers loads",
    ),
    "lines of this program's own child": ("broker/group_processes.py _watch loads",),
    "settings in a request: SETTINGS_SIZE_MAX": (
        "live_settings.py ChangeableSettings.changes_in read_properties",
        "nameserver/settings_requests.py NamesrvConfigProcessor.update_namesrv_config decode_properties_text",
        "nameserver/settings_requests.py NamesrvConfigProcessor.update_namesrv_config read_properties",
    ),
    "VERSION_SIZE_MAX is compared before": ("nameserver/routes/registration.py _decode decode_body",),
    "a registration: WHOLE_SIZE_MAX at once, or in slices of _TOPIC_SIZE_MAX and _SMALL_SIZE_MAX": (
        "protocol/bodies/registration.py (module) Decoder",
        "protocol/bodies/registration.py _outer Decoder",
        "protocol/bodies/registration.py _topic_slices loads",
        "protocol/bodies/registration.py _wrapper_slices loads",
        "protocol/bodies/registration.py old_registration_slices decode_body",
        "protocol/bodies/registration.py registration_slices decode_body",
        "protocol/bodies/registration.py registration_slices loads",
        "protocol/bodies/topic.py _CompressedReader.read_length unpack_from",
        "protocol/bodies/topic.py _inflated decompress",
        "protocol/bodies/topic.py _inflated decompressobj",
        "protocol/bodies/topic.py compressed_slices decode_body",
        "protocol/bodies/topic.py compressed_slices loads",
    ),
    "it is the bound: size_max, or the counts of an answer": (
        "protocol/bodies/codec.py decode_peer_body loads_answer",
        "protocol/compression.py _decompress_lz4 decompress",
        "protocol/compression.py _decompress_zlib decompress",
        "protocol/compression.py _decompress_zlib decompressobj",
        "protocol/fastjson/codec.py (module) Decoder",
        "protocol/fastjson/codec.py loads_answer loads",
        "protocol/stored_message.py decode_message decompress",
        "protocol/stored_message.py decode_messages decompress",
    ),
    WORKER + "a table of another broker": (
        "broker/replication/broker_tables.py _decode_delay_offsets decode_delay_progress",
        "broker/replication/broker_tables.py _decode_delay_offsets loads_integer_keys",
        "broker/replication/broker_tables.py _decode_groups decode_peer_body",
        "broker/replication/broker_tables.py _decode_offsets loads_integer_keys",
        "broker/replication/broker_tables.py _decode_slave_offsets loads_integer_keys",
        "broker/replication/broker_tables.py _decode_topics decode_peer_body",
        "broker/replication/broker_tables.py _offsets_of decode_offset_table",
    ),
    WORKER + "an answer of a nameserver or a consumer": (
        "broker/admin/clients.py _decode_status decode_peer_body",
        "broker/metadata/registration.py RegistrationService._take_order_topics decode_peer_body",
        "broker/replication/brokers_of_one_id.py BrokersOfOneId._ask decode_peer_body",
        "broker/replication/offsets_from_slaves.py OffsetsFromSlaves._ask_nameserver decode_peer_body",
    ),
    WORKER + "an answer to a client, or a request of a broker": (
        "client/admin/brokers.py _settings_in decode_properties_text",
        "client/admin/brokers.py _settings_in read_properties",
        "client/admin/messages.py _read_query decode_messages",
        "client/admin/topics.py TopicAdmin.consumer_groups decode_peer_body",
        "client/admin/topics.py _topics_in decode_peer_body",
        "client/answers.py Answers.body decode_peer_body",
        "client/consumer/group/broker_commands.py _offsets_of decode_peer_body",
        "client/consumer/group/requests.py _ids_in decode_peer_body",
        "client/name_servers.py NameServers.find_route.decode decode_peer_body",
        "client/producer/transaction.py _Checks.check_transaction_state decode_message",
        "client/replies.py Replies._reply_of decompress",
    ),
    "TRACE_BODY_MAX, and MessageAdmin.trace calls it in a worker": ("client/admin/traces.py trace_of read_traces",),
    "an option of this name, no call": ("spark/live/reader.py _read_part decompress",),
    "in a driver or task of Spark, which has no loop; ANSWER_VALUES_MAX": (
        "spark/live/cluster.py _read_body decode_peer_body",
        "spark/pipelines/live_offsets.py live_group_offsets decode_offset_table",
        "spark/pipelines/live_offsets.py live_group_offsets loads_integer_keys",
    ),
}
REASONS = {place: reason for reason, places in _REASONS.items() for place in places}
"""What bounds the places that have no argument for it."""


@attrs.frozen(order=True)
class Place:
    """Where a decoder is called or handed on without an argument that bounds it."""

    module: str
    function: str
    name: str

    def __str__(self) -> str:
        return f"{self.module} {self.function or '(module)'} {self.name}"


def places_in(source: str, module: str) -> Iterator[Place]:
    """Yield the places of one module."""
    yield from _visit(ast.parse(source), module, ())


def _visit(node: ast.AST, module: str, around: tuple[str, ...]) -> Iterator[Place]:
    for child in ast.iter_child_nodes(node):
        inner = around
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (*around, child.name)
        if isinstance(child, ast.Call):
            name = _name(child.func)
            if name in ARGUMENTS and _is_bounded(child, ARGUMENTS[name]):
                for part in (*child.args, *(each.value for each in child.keywords)):
                    yield from _visit(ast.Expr(part), module, around)
                continue
            if name == "partial" and child.args and _is_bounded(child, ARGUMENTS.get(_name(child.args[0]), "")):
                continue
        if isinstance(child, ast.Name | ast.Attribute) and isinstance(child.ctx, ast.Load):
            name = _name(child)
            if name in FOREIGN or name in OURS:
                yield Place(module, ".".join(around), name)
        yield from _visit(child, module, inner)


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _is_bounded(call: ast.Call, argument: str) -> bool:
    """Whether a call has the argument: a flag only when it is True, a bound when it is anything but None."""
    for keyword in call.keywords:
        if keyword.arg == argument:
            value = keyword.value
            return not (isinstance(value, ast.Constant) and value.value in (None, False))
        if keyword.arg == "decompress" and isinstance(keyword.value, ast.Constant) and argument == "unpacked_max":
            return keyword.value.value is False
    return False


def modules() -> Iterator[tuple[str, str]]:
    """Yield path and source of the modules that may decode what a peer has sent."""
    for path in sorted(ROOT.rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        if module.startswith(READ_ALL_THE_SAME) or not module.startswith(tuple(OWN_FILES)):
            yield module, path.read_text()


def test_every_decoding_has_a_bound_or_a_reason() -> None:
    found = {str(place) for module, source in modules() for place in places_in(source, module)}
    missing = sorted(found - REASONS.keys())
    assert not missing, "neither bounded nor in REASONS:\n" + "\n".join(missing)
    assert not REASONS.keys() - found, "these reasons have no place any more"


def test_what_runs_off_the_loop_does() -> None:
    """A reason is believed only where the module hands something to a worker."""
    sources = dict(modules())
    hands_on = (".decoded(", ".unpacked(", "run_decoder(", ".in_worker(", "self._table(")
    for place, reason in REASONS.items():
        if reason.startswith(WORKER):
            source = sources[place.split()[0]]
            assert any(word in source for word in hands_on), place


def test_every_function_that_decodes_is_in_the_table() -> None:
    known = OURS | BOUNDED.keys()
    found = set()
    for _, source in modules():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("decode_"):
                found.add(node.name)
    assert not found - known, f"neither in OURS nor in BOUNDED: {sorted(found - known)}"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("x = loads(b)", ["loads"]),
        ("x = fastjson.loads(b, references=False)", ["loads"]),
        ("x = loads(b, is_bounded=True)", []),
        ("x = loads(b, is_bounded=False)", ["loads"]),
        ("x = decode_body(loads(b), C, is_bounded=True)", ["loads"]),
        ("x = decode_messages(b, count_max=None)", ["decode_messages"]),
        ("x = decode_message(b, decompress=False)", []),
        ("x = decode_message(b, decompress=True)", ["decode_message"]),
        ("x = run(partial(decode_messages, count_max=1))", []),
        ("x = run(partial(decode_messages), 5)", ["decode_messages"]),
        ("x = run(decode_peer_body, b)", ["decode_peer_body"]),
        ("def f(b):\n  return zlib.decompress(b)", ["decompress"]),
        ("a = struct.Struct('>i').unpack_from(b)", ["unpack_from"]),
        ("d = msgspec.json.Decoder(dict)", ["Decoder"]),
    ],
)
def test_what_is_found(source: str, names: list[str]) -> None:
    assert [place.name for place in places_in(source, "m.py")] == names

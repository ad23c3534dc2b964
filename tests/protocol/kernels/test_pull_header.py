"""Headers of pulls by comparison have the fields that the decoder gives them, or are left to it."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.protocol.fast_path_headers import FAST_HEADER_ERRORS, decode_fast_pull
from rocketpy.protocol.kernels.pull_header import KEPT_HEADER_MAX, KEPT_HEADERS_MAX, PullForms
from rocketpy.protocol.signature import signed_content
from tests.protocol.kernels.kept_bytes import kept_bytes

NUMBERS = [0, 7, 31, 2**31 - 1, 2**31, 10**17, 10**18, 2**63 - 1, 2**63, -1]


def header_of(opaque: object = 5, *, is_quoted: bool = True, **fields: object) -> bytes:
    usual: dict[str, object] = {
        "commitOffset": 0,
        "consumerGroup": "G",
        "expressionType": "TAG",
        "maxMsgNums": 32,
        "queueId": 3,
        "queueOffset": 96,
        "subVersion": 1,
        "subscription": "*",
        "suspendTimeoutMillis": 15000,
        "sysFlag": 6,
        "topic": "T",
    }
    given = {name: str(value) if is_quoted else value for name, value in {**usual, **fields}.items()}
    members = {"code": 11, "extFields": given, "flag": 0, "language": "JAVA", "opaque": opaque, "version": 407}
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()


def serve(forms: PullForms, header: bytes) -> bool:
    """Read a header as the fast path does; return whether a kept one was like it, whose fields then are right."""
    try:
        request = decode_fast_pull(header)
    except FAST_HEADER_ERRORS:
        assert forms.find(header) is None
        return False
    form = forms.find(header)
    if form is None:
        forms.keep(header, request.ext_fields, request.flag)
        return False
    numbers = {
        "queue_id": form.queue_id,
        "queue_offset": form.queue_offset,
        "commit_offset": form.commit_offset,
        "max_msg_nums": form.max_msg_nums,
        "sys_flag": form.sys_flag,
        "topic": form.topic,
        "consumer_group": form.consumer_group,
    }
    assert msgspec.structs.replace(form.fields, **numbers) == request.ext_fields
    assert (form.opaque, form.flag) == (request.opaque, request.flag)
    return True


@given(
    st.lists(st.tuples(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)), min_size=2),
    st.booleans(),
)
@example([(0, 1, 2), (31, 2**31, 10**17)], True)
def test_only_numbers_differ(numbers: list[tuple[int, int, int]], is_quoted: bool) -> None:
    forms = PullForms()
    for small, offset, opaque in numbers:
        serve(
            forms,
            header_of(opaque, is_quoted=is_quoted, queueId=small, queueOffset=offset, commitOffset=offset ^ small),
        )


@pytest.mark.parametrize("is_quoted", [True, False])
def test_a_header_like_one_before_is_not_decoded(is_quoted: bool) -> None:
    forms = PullForms()
    assert not serve(forms, header_of(1, is_quoted=is_quoted))
    assert serve(forms, header_of(2**31 - 1, is_quoted=is_quoted, queueId=31, queueOffset=10**17, commitOffset=96))
    assert serve(forms, header_of(0, is_quoted=is_quoted, queueId=0, queueOffset=0, commitOffset=0))
    assert not serve(forms, header_of(0, is_quoted=not is_quoted))


@pytest.mark.parametrize("name", ["consumerGroup", "topic", "maxMsgNums", "subscription", "sysFlag", "subVersion"])
def test_a_header_that_differs_elsewhere_is_decoded(name: str) -> None:
    forms = PullForms()
    assert not serve(forms, header_of())
    assert not serve(forms, header_of(**{name: 44}))
    assert serve(forms, header_of(9)), "both are kept"
    assert serve(forms, header_of(9, **{name: 44}))


def test_every_byte_that_differs_is_seen() -> None:
    header = header_of()
    for position in range(len(header)):
        for byte in b' "\\,:}0e.':
            forms = PullForms()
            serve(forms, header)
            serve(forms, header[:position] + bytes([byte]) + header[position + 1 :])
        forms = PullForms()
        serve(forms, header)
        assert forms.find(header[:position]) is None
        assert forms.find(header + header[:position]) is None or not position


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"T"', b'"\\u0054"'),  # a backslash: a name might be written that way
        (b'"T"', b'"queueId"'),  # a name that occurs twice
        (b'"T"', b'"T","queueId" :"4"'),
        (b'"opaque":', b'"opaque" :'),
        (b'"queueId":"3"', b'"queueId":" 3"'),
        (b'"queueId":"3"', b'"queueId":3.0'),
        (b'"queueId":"3"', b'"queueId":3e0'),
        (b'"queueId":"3"', b'"queueId":3 '),
        (b'"commitOffset":"0"', b'"commitOffset":"-1"'),
        (b'"T"', b'"T","more":"%s"' % (b"x" * KEPT_HEADER_MAX)),
    ],
)
def test_a_header_of_another_form_is_not_kept(old: bytes, new: bytes) -> None:
    forms = PullForms()
    header = header_of().replace(old, new)
    assert header != header_of()
    for _ in range(3):
        assert not serve(forms, header)


def test_few_headers_are_kept_and_fewer_where_none_is_like_another() -> None:
    forms = PullForms()
    topics = [f"T{number}" for number in range(KEPT_HEADERS_MAX + 1)]
    for topic in topics:
        assert not serve(forms, header_of(topic=topic))
    assert not serve(forms, header_of(topic=topics[0])), "it went for the last one"
    assert serve(forms, header_of(topic=topics[0]))
    assert serve(forms, header_of(topic=topics[-1]))
    for number in range(100):
        assert not serve(forms, header_of(topic=f"X{number}"))
    assert not serve(forms, header_of(topic="X99"))
    assert serve(forms, header_of(topic="X95")), "one in sixteen"


def test_what_is_signed_is_that_of_the_header_at_hand() -> None:
    forms = PullForms()
    token = {"AccessKey": "A", "SecurityToken": "t", "bname": "b", "ReqT": "2", "x": "1"}
    for number, body in ((5, b""), (10**17, b"body"), (0, b"")):
        fields = {**token, "queueId": number % 7, "queueOffset": number, "commitOffset": number // 3}
        header = header_of(number % 2**31, **fields, Signature=f"s{number}=")
        found = serve(forms, header)
        form = forms.find(header)
        assert form is not None
        ext_fields = json.loads(header)["extFields"]
        assert (form.access_key, form.signature) == ("A", f"s{number}=".encode())
        assert form.signed_content(header, body) == signed_content(ext_fields, body)
        assert found == (number != 5)


@pytest.mark.parametrize(
    "header",
    [
        header_of(),
        header_of(AccessKey="A"),
        header_of(is_quoted=False, AccessKey="A", Signature="s"),
        header_of(AccessKey="Ä", Signature="s"),
        header_of(AccessKey="A", Signature="s").replace(b'"subVersion":"1"', b'"subVersion":1'),
    ],
)
def test_a_header_that_clients_do_not_sign_like_this_has_no_account(header: bytes) -> None:
    forms = PullForms()
    serve(forms, header)
    form = forms.find(header)
    assert form is None or form.access_key == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [(b'"s"', b'"s","Signature":"t"'), (b'"s"', b'"s\x7f\xc3\xa4"'), (b'"Signature":', b'"Signature": ')],
)
def test_a_signature_in_another_form_is_not_compared(old: bytes, new: bytes) -> None:
    forms = PullForms()
    header = header_of(AccessKey="A", Signature="s").replace(old, new)
    serve(forms, header)
    form = forms.find(header)
    assert form is None or form.access_key == ""


def test_what_a_connection_keeps_is_bounded() -> None:
    forms = PullForms()
    for number in range(2 * KEPT_HEADERS_MAX):
        header = header_of(topic=f"T{number}", subscription="s" * 600)
        assert not serve(forms, header)
        assert serve(forms, header)
    assert 4 << 10 < kept_bytes(forms) <= 16 << 10

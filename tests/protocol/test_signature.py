"""Signatures: bytes recorded from Java, and what a check must not tell by how long it takes."""

from __future__ import annotations

import hmac

import pytest

from rocketpy.protocol import signing_key
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.signature import (
    RequestSigner,
    SessionCredentials,
    proved_content,
    shape_of,
    signed_content,
)
from rocketpy.protocol.signing_key import SigningKey
from tests.recorded import VECTORS


def body_of(vector: dict[str, object]) -> bytes | None:
    body = vector["body_hex"]
    return None if body is None else bytes.fromhex(str(body))


@pytest.mark.parametrize("vector", VECTORS["acl_content_and_signature"])
def test_java_signs_the_same_bytes_to_the_same_text(vector: dict[str, object]) -> None:
    fields, body = vector["fields_without_signature"], vector["body"]
    assert isinstance(fields, dict)
    content = signed_content(fields, str(body).encode() if body else None)
    assert content.hex() == vector["content_hex"]
    assert SigningKey(str(vector["secret"])).sign(content).decode() == vector["signature"]


@pytest.mark.parametrize("vector", VECTORS["acl_client_hook"])
def test_what_javas_clients_sign_is_right_here(vector: dict[str, object]) -> None:
    """Among them is a query by unique key, which Java's own broker refuses."""
    fields = vector["ext_fields"]
    assert isinstance(fields, dict)
    assert proved_content(fields, body_of(vector), SigningKey(str(vector["secret"])))
    assert not proved_content(fields, b"another body", SigningKey(str(vector["secret"])))
    assert not proved_content(fields, body_of(vector), SigningKey("another secret"))


@pytest.mark.parametrize("vector", VECTORS["acl_client_hook"])
def test_our_signer_adds_the_fields_that_javas_hook_adds(vector: dict[str, object]) -> None:
    theirs = vector["ext_fields"]
    assert isinstance(theirs, dict)
    plain = {key: value for key, value in theirs.items() if key not in ("AccessKey", "Signature", "SecurityToken")}
    request = RemotingCommand(int(str(vector["code"])), plain, body_of(vector))
    sign = RequestSigner(SessionCredentials(theirs["AccessKey"], str(vector["secret"]), theirs.get("SecurityToken")))
    sign(request)
    assert request.ext_fields == theirs
    sign(request)
    assert request.ext_fields == theirs, "a request that is sent again is signed again"


def test_a_request_without_fields_is_signed_too() -> None:
    request = RemotingCommand(28)
    RequestSigner(SessionCredentials("account-1", "a secret key"))(request)
    assert request.ext_fields is not None
    assert list(request.ext_fields) == ["AccessKey", "Signature"]
    assert proved_content(request.ext_fields, None, SigningKey("a secret key"))


def test_ours_begins_with_the_code_the_server_and_the_shape_that_it_is_for() -> None:
    request = RemotingCommand(28, {"zone": "2"}, b"body")
    sign = RequestSigner(SessionCredentials("account-1", "a secret key"))
    sign(request, "::1:10911")
    fields = request.ext_fields
    assert fields is not None
    shape = shape_of([("AccessKey", 9), ("zone", 1)], 4)
    assert signed_content(fields, b"body") == b"rocketpy-1 28 ::1:10911 %s account-12body" % shape.encode()
    sign(request)
    assert list(fields) == ["zone", "AccessKey", "Signature"], "a request that is sent again, as RocketMQ signs it"


def test_a_shape_is_of_names_and_lengths() -> None:
    shapes = {
        shape_of(lengths, size)
        for lengths, size in (
            ([("a", 1), ("b", 2)], 0), ([("a", 1), ("b", 2)], 1), ([("a", 2), ("b", 1)], 0), ([("a", 1)], 2),
            ([("a=1,1:b", 2)], 0), ([], 0), ([("", 0)], 0),
        )
    }  # fmt: skip
    assert len(shapes) == 7
    assert shape_of([("a", 1), ("b", 2)], 3) == shape_of([("b", 2), ("a", 1)], 3)


def test_the_unique_key_marker_may_be_signed_or_not() -> None:
    key = SigningKey("12345678")
    fields = {"AccessKey": "RocketMQ", "_UNIQUE_KEY_QUERY": "true", "key": "k", "topic": "T"}
    for leave_out in ("Signature", "_UNIQUE_KEY_QUERY"):
        made = key.sign(signed_content(fields, None, leave_out=leave_out)).decode()
        assert proved_content(fields | {"Signature": made}, None, key)
    assert not proved_content(fields | {"Signature": ""}, None, key)


def test_keys_are_in_the_order_of_java_strings() -> None:
    """A surrogate pair sorts before U+FF21 in UTF-16 and after it by code point."""
    assert signed_content({"\uff21": "2", "\U0001f680": "1"}, None) == b"12"


def test_a_signature_in_another_script_is_only_wrong() -> None:
    assert not proved_content({"Signature": "signé\udcff"}, None, SigningKey("12345678"))


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(SessionCredentials("account-1", "secret-one", "secret-two")).replace("secret_key", "")


def test_right_and_wrong_take_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time itself is not measured here: every check hashes as often, and compares whole texts."""
    compared: list[tuple[bytes, bytes]] = []
    key = SigningKey("12345678")

    def noted(computed: bytes, found: bytes) -> bool:
        compared.append((computed, found))
        return hmac.compare_digest(computed, found)

    monkeypatch.setattr(signing_key, "compare_digest", noted)
    fields = {"AccessKey": "RocketMQ", "topic": "T", "_UNIQUE_KEY_QUERY": "true"}
    right = key.sign(signed_content(fields, None)).decode()
    counts = []
    for found in (right, "A" + right[1:], "", right + "x"):
        compared.clear()
        proved_content(fields | {"Signature": found}, None, key)
        counts.append(len(compared))
    assert counts == [2, 2, 2, 2]

"""The file that says who the commands are."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.cli.credentials import load_credentials
from rocketpy.errors import SettingsError
from rocketpy.protocol.signature import SessionCredentials


def test_a_file_of_rocketmqs_tools(tmp_path: Path) -> None:
    path = tmp_path / "tools.yml"
    path.write_text("# who\naccessKey: RocketMQ\nsecretKey: 012345678\n")
    assert load_credentials(str(path)) == SessionCredentials("RocketMQ", "012345678")
    path.write_text("accessKey: 'RocketMQ'\nsecretKey: \"key\"\nsecurityToken: token\n")
    assert load_credentials(str(path)) == SessionCredentials("RocketMQ", "key", "token")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected accessKey: and secretKey:"),
        ("- a\n", "expected accessKey: and secretKey:"),
        ("accessKey: a\n", "expected a value for secretKey, found none"),
        ("secretKey: a\n", "expected a value for accessKey, found none"),
        ("accessKey: [a]\nsecretKey: b\n", "line 1: expected a text for accessKey"),
        (
            "accessKey: a\nsecretKey: b\nsecuritytoken: c\n",
            "line 3: expected accessKey, secretKey, securityToken",
        ),
        ("accessKey: a\nsecretKey: b\naccessKey: c\n", "line 3: accessKey was set in line 1 already"),
        ("accessKey: 'a\n", "line 2: found unexpected end of stream"),
        ("accessKey: a\nsecretKey: " + "b" * 70_000, "expected at most 65536 bytes"),
    ],
)
def test_a_wrong_file_is_an_error_and_not_an_unsigned_request(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "tools.yml"
    path.write_text(text)
    with pytest.raises(SettingsError) as failure:
        load_credentials(str(path))
    assert str(failure.value).startswith(str(path))
    assert expected in str(failure.value)


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load_credentials(str(tmp_path / "missing.yml"))
    (tmp_path / "latin.yml").write_bytes(b"accessKey: \xe9\n")
    with pytest.raises(SettingsError, match="utf-8"):
        load_credentials(str(tmp_path / "latin.yml"))

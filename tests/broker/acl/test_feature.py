"""The access control feature: where accounts are looked for, and the checks that a dispatcher gets, or none at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.broker.acl.feature import AclFeature, acl_directory, load_accounts
from rocketpy.broker.config import BrokerConfig
from rocketpy.clock import ManualClock
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.fast_path_headers import decode_fast_batch, decode_fast_send
from rocketpy.runner import run_inline
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.acl.accounts import ACCOUNTS, DEFAULT, DIRECTORY, make_manager, peer_at, write_file


def test_without_accounts_nothing_is_checked() -> None:
    feature = AclFeature(None)
    assert (feature.authorize, feature.fast_guards, feature.services) == (None, None, ())
    assert feature.decode_send is decode_fast_send
    assert feature.decode_batch is decode_fast_batch
    feature.connection_closed(peer_at("10.0.0.1"))


def test_with_accounts_every_fast_path_has_its_guard() -> None:
    manager = make_manager()
    feature = AclFeature(manager)
    assert feature.authorize == manager.authorize
    assert set(feature.fast_guards or {}) == {
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.PULL_MESSAGE,
    }
    assert len(feature.services) == 1


@pytest.mark.parametrize(
    ("settings", "directory"),
    [
        ({}, "/etc/rocketmq"),
        ({"rocketmq_home": "/opt/rocketmq"}, "/opt/rocketmq/conf"),
        ({"acl_directory": "/accounts", "rocketmq_home": "/opt/rocketmq"}, "/accounts"),
    ],
)
def test_accounts_are_beside_the_settings_by_default(settings: dict[str, str], directory: str) -> None:
    assert acl_directory(BrokerConfig(**settings), "/etc/rocketmq/broker.conf") == directory  # type: ignore[arg-type]


def test_the_directory_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert acl_directory(BrokerConfig(), "broker.conf") == str(tmp_path)
    assert acl_directory(BrokerConfig(acl_directory="accounts"), "/x/broker.conf") == str(tmp_path / "accounts")
    assert acl_directory(BrokerConfig(rocketmq_home="."), "/x/broker.conf") == str(tmp_path / "conf")


def test_without_acl_enable_no_file_is_read() -> None:
    disk = SimDisk()
    write_file(disk, DEFAULT, "no: [yaml")
    config = BrokerConfig(acl_directory=DIRECTORY)
    assert load_accounts(config, "", disk=disk, run_blocking=run_inline, clock=ManualClock()) is None


@pytest.mark.parametrize("is_strict", [False, True])
def test_with_it_the_accounts_are_there(is_strict: bool) -> None:
    disk = SimDisk()
    write_file(disk, DEFAULT, ACCOUNTS)
    config = BrokerConfig(acl_enable=True, acl_directory=DIRECTORY, acl_strict=is_strict)
    accounts = load_accounts(config, "", disk=disk, run_blocking=run_inline, clock=ManualClock())
    assert accounts is not None
    assert accounts.is_strict is is_strict
    assert list(accounts.versions()) == [DEFAULT]

"""The process feature: certificates are watched, and live settings of the store and of the logs reach both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from rocketpy import BUILD
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.process_feature import ProcessFeature
from rocketpy.remoting.config import TlsServerConfig
from rocketpy.remoting.tls.contexts import ServerTls
from rocketpy.store.config import MessageStoreConfig
from tests.broker.tables_of_a_broker import context_of, make_tables

TLS = ServerTls(TlsServerConfig())


@pytest.fixture
def context() -> BrokerContext:
    return context_of(make_tables(Path("/nowhere")), mock.Mock(), MessageStoreConfig())


def listener(feature: ProcessFeature, key: str) -> Callable[[], None]:
    (found,) = [listener for keys, listener in feature.settings.items() if key in keys]
    return found


def test_certificates_are_watched(context: BrokerContext) -> None:
    assert ProcessFeature(context, tls=TLS).services == (TLS,)


@pytest.mark.parametrize("key", ["fileReservedTime", "diskMaxUsedSpaceRatio"])
def test_a_live_setting_of_the_store_reaches_it(context: BrokerContext, key: str) -> None:
    listener(ProcessFeature(context, tls=TLS), key)()
    assert isinstance(context.store, mock.Mock)
    context.store.settings_changed.assert_called_once_with()


def test_the_figures_say_which_build_runs(context: BrokerContext) -> None:
    assert ProcessFeature(context, tls=TLS).figures() == {"build": str(BUILD)}

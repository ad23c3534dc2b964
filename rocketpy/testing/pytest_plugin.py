"""Pytest plugin: a RocketMQ broker as a fixture.

::

    def test_an_order_is_announced(rocketmq):
        place_order(rocketmq.name_server)
        assert [message.body for message in rocketmq.messages("orders")] == [b"42"]

| fixture | broker | scope |
|---|---|---|
| ``rocketmq`` | in a thread of the test's process | one test |
| ``rocketmq_session`` | the same | all tests |
| ``rocketmq_process`` | a process, for programs that are not Python | one test |
| ``rocketmq_process_session`` | the same | all tests |

``@pytest.mark.rocketmq(transactionCheckInterval=1000, disk="simulated")`` has settings of ``broker.conf`` for one test,
the ini option ``rocketmq_settings`` (lines ``key=value``) for all. Pytest finds the plugin by its entry point. Rule:
it imports nothing of a broker until a test asks for one, because every run of pytest on the machine loads this module.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from rocketpy.testing.fixture.in_process import BrokerInProcess
    from rocketpy.testing.fixture.in_thread import BrokerInThread
    from rocketpy.testing.fixture.options import BrokerOptions
    from rocketpy.testing.fixture.spawner import Spawn

    BrokerT = TypeVar("BrokerT", BrokerInThread, BrokerInProcess)

MARKER = "rocketmq"
INI_SETTINGS = "rocketmq_settings"

_MARKER_HELP = (
    "rocketmq(disk=..., store=..., **settings): the broker of the fixtures rocketmq and rocketmq_process of one test; "
    "disk is 'temporary' or 'simulated', store a directory to begin with a copy of, the settings have the names of "
    "broker.conf"
)


class _Brokers:
    """The brokers that are open, which the plugin looks after."""

    def __init__(self) -> None:
        self.running: list[BrokerInThread | BrokerInProcess] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail the test during which a broker has died, with its reason; also one that fails because of it."""
        try:
            return (yield)
        finally:
            for broker in list(self.running):
                broker.check()


class _AsItIs:
    """Imports the modules of rocketpy as every program does, from their bytecode.

    Pytest rewrites the asserts of all modules of a distribution that has a plugin. With an empty cache, or one that it
    may not write, the first broker of a run would wait seconds until hundreds of modules are parsed, rewritten and
    compiled; no test is among them. This finder stands before pytest's and asks all others.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of rocketpy is; None for any other."""
        if not name.startswith("rocketpy."):
            return None
        for finder in sys.meta_path:
            if finder is not self and not type(finder).__module__.startswith("_pytest."):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None


_BROKERS = pytest.StashKey[_Brokers]()
_AS_IT_IS = _AsItIs()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option; the first thing that pytest asks of a plugin, before it loads a conftest."""
    if _AS_IT_IS not in sys.meta_path:
        sys.meta_path.insert(0, _AS_IT_IS)
    parser.addini(INI_SETTINGS, "settings of broker.conf for every broker of a fixture, key=value", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and look after brokers."""
    config.addinivalue_line("markers", _MARKER_HELP)
    brokers = config.stash[_BROKERS] = _Brokers()
    config.pluginmanager.register(brokers, "rocketmq-brokers")


def pytest_unconfigure() -> None:
    """Leave imports as they were; of runs of pytest in one process the first that ends does it."""
    if _AS_IT_IS in sys.meta_path:
        sys.meta_path.remove(_AS_IT_IS)


@pytest.fixture
def rocketmq(request: pytest.FixtureRequest) -> Iterator[BrokerInThread]:
    """A broker and a nameserver in a thread, for one test; ``rocketmq.name_server`` is what clients are given."""
    from rocketpy.testing.fixture.in_thread import open_broker_in_thread

    yield from _opened(request, open_broker_in_thread(_options(request, request.node)))


@pytest.fixture(scope="session")
def rocketmq_session(request: pytest.FixtureRequest) -> Iterator[BrokerInThread]:
    """A broker and a nameserver in a thread, one for all tests: they should use topics of their own."""
    from rocketpy.testing.fixture.in_thread import open_broker_in_thread

    yield from _opened(request, open_broker_in_thread(_options(request, None)))


@pytest.fixture(scope="session")
def _rocketmq_spawn() -> Iterator[Spawn]:
    """What starts brokers: on Linux a process that forks them, started with the first; elsewhere new interpreters."""
    from rocketpy.testing.fixture.spawner import open_broker_spawner, spawn_interpreter

    if sys.platform != "linux":
        yield spawn_interpreter
        return
    with open_broker_spawner() as spawner:
        yield spawner.spawn


@pytest.fixture
def rocketmq_process(request: pytest.FixtureRequest, _rocketmq_spawn: Spawn) -> Iterator[BrokerInProcess]:
    """A broker in a process of its own, for one test."""
    from rocketpy.testing.fixture.in_process import open_broker_in_process

    yield from _opened(request, open_broker_in_process(_options(request, request.node), spawn=_rocketmq_spawn))


@pytest.fixture(scope="session")
def rocketmq_process_session(request: pytest.FixtureRequest, _rocketmq_spawn: Spawn) -> Iterator[BrokerInProcess]:
    """A broker in a process of its own, one for all tests."""
    from rocketpy.testing.fixture.in_process import open_broker_in_process

    yield from _opened(request, open_broker_in_process(_options(request, None), spawn=_rocketmq_spawn))


def _opened(request: pytest.FixtureRequest, opening: AbstractContextManager[BrokerT]) -> Iterator[BrokerT]:
    """Open a broker and look after it; its end is that of the fixture, whatever the test did."""
    running = request.config.stash[_BROKERS].running
    with opening as broker:
        running.append(broker)
        try:
            yield broker
        finally:
            running.remove(broker)


def _options(request: pytest.FixtureRequest, node: pytest.Item | None) -> BrokerOptions:
    """Return the options of the ini file, with those of a test's markers over them, the closest one last."""
    from rocketpy.testing.fixture.options import TEMPORARY, BrokerOptions, parse_settings

    settings = parse_settings(request.config.getini(INI_SETTINGS))
    disk, store = TEMPORARY, None
    for marker in reversed(list(node.iter_markers(MARKER))) if node is not None else ():
        own = dict(marker.kwargs)
        disk, store = own.pop("disk", disk), own.pop("store", store)
        settings.update(own)
        if marker.args:
            pytest.fail(f"@pytest.mark.rocketmq{marker.args!r}: expected settings by name", pytrace=False)
    return BrokerOptions(settings=settings, disk=disk, store=store)

"""Runs the programs of ``docs/examples/services`` in processes of their own, and kills them where it matters."""

from __future__ import annotations

import inspect
import os
import runpy
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from tests.blackbox.processes import REPOSITORY, Process
from tests.patience import wait_until

SERVICES = REPOSITORY / "docs" / "examples" / "services"


@attrs.define
class Services:
    """Services of one test, whose files and logs are in a directory; what still runs at the end is killed."""

    directory: Path
    running: list[Process] = attrs.field(factory=list)

    def start(self, name: str, *arguments: str, dies_at: str = "") -> Process:
        """Start a service; with ``dies_at``, ``Class.method number``, it is killed in the place of that call."""
        command = [str(SERVICES / f"{name}.py"), *arguments]
        if dies_at:
            command = ["-m", __name__, *dies_at.split(), *command]
        log_path = self.directory / f"{name}-{len(self.running)}.log"
        python_path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
        environment = {"PYTHONPATH": python_path, "HOME": str(self.directory)}
        service = Process.start([sys.executable, *command], log_path, cwd=self.directory, env=environment)
        self.running.append(service)
        return service


@contextmanager
def services_in(directory: Path) -> Iterator[Services]:
    """Services for a block."""
    services = Services(directory)
    try:
        yield services
    finally:
        for service in services.running:
            service.kill()


def wait_for(service: Process, condition: Callable[[], object]) -> None:
    """Wait for what a service that runs brings about."""

    def is_so() -> bool:
        assert service.is_running(), service.log()
        return bool(condition())

    wait_until(is_so, service.log)


def assert_killed(service: Process) -> None:
    """Wait until a service has been killed in the place of a call."""
    assert service.wait() == -signal.SIGKILL, service.log()


def assert_stops(service: Process) -> None:
    """A service that gets SIGTERM ends in order."""
    assert service.terminate() in (0, -signal.SIGTERM), service.log()
    assert "Traceback" not in service.log()


def main(method: str, number: str, path: str, *arguments: str) -> None:
    """Run a program that is killed in the place of a call of a method, or a use of a property, of the client."""
    from rocketpy import client

    owner, name = method.split(".")
    calls = iter(range(1, int(number) + 1))
    original = getattr(getattr(client, owner), name)

    def counted(*given: Any, **named: Any) -> Any:
        if next(calls) == int(number):
            signal.raise_signal(signal.SIGKILL)
        return original.fget(*given) if isinstance(original, property) else original(*given, **named)

    async def awaited(*given: Any, **named: Any) -> object:
        return await counted(*given, **named)

    if isinstance(original, property):
        setattr(getattr(client, owner), name, property(lambda target: counted(target)))
    else:
        is_async = inspect.iscoroutinefunction(original)
        setattr(getattr(client, owner), name, awaited if is_async else counted)
    sys.argv = [path, *arguments]
    runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])

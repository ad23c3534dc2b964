"""The names that programs write: those that ``docs/architecture.md`` lists. A name that goes breaks its users."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from rocketpy import client, errors
from rocketpy.client import admin

PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
NAMES = {
    module: set(re.findall(r"`(\w+)`", names))
    for module, names in re.findall(r"^\| `(rocketpy\.[a-z.]+)` \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
}
"""The public names by module, as the page about the architecture promises them."""
CLIENT, ADMIN = NAMES["rocketpy.client"], NAMES["rocketpy.client.admin"]


@pytest.mark.parametrize(("package", "names"), [(client, CLIENT), (admin, ADMIN)], ids=["client", "admin"])
def test_a_package_has_its_public_names(package: ModuleType, names: set[str]) -> None:
    assert set(package.__all__) == names
    assert {name for name in names if not hasattr(package, name)} == set()


def test_the_errors_module_has_its_public_names() -> None:
    assert {name for name, value in vars(errors).items() if _is_error(value)} == NAMES["rocketpy.errors"]


def test_each_subject_of_the_admin_client_is_public() -> None:
    assert {value for name, value in _subjects().items() if value not in _public()} == set()


@pytest.mark.parametrize("name", sorted(CLIENT | (ADMIN - {"TO_END"})))
def test_public_calls_take_and_return_public_types(name: str) -> None:
    """Annotating the result of a call needs no internal module."""
    public = _public()
    internal = {
        each
        for function in _public_calls(getattr(client, name, None) or getattr(admin, name))
        for hint in typing.get_type_hints(
            function, localns={name: getattr(client, name) for name in client.__all__}
        ).values()
        for each in _types_in(hint)
        if each.__module__.startswith("rocketpy.") and each not in public
    }
    assert internal == set()


UNUSED = [
    "rocketpy.broker", "rocketpy.nameserver", "rocketpy.store", "rocketpy.spark", "pyspark", "typer", "rich",
    "rocketpy.client.admin", "rocketpy.client.consumer", "rocketpy.remoting.server", "rocketpy.remoting.hub", "cattrs",
    "asyncio",
]  # fmt: skip
"""What importing the client must not load: other programs, and what takes two thirds of the time of the import."""


def test_importing_the_client_loads_nothing_that_a_producer_does_not_need() -> None:
    code = "import sys, rocketpy.client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "rocketpy.client.producer.producer" in loaded
    assert [name for name in loaded if name.startswith(tuple(UNUSED))] == []


def _public() -> set[object]:
    return {
        *(getattr(client, each) for each in CLIENT),
        *(getattr(admin, each) for each in ADMIN),
        *(getattr(errors, each) for each in NAMES["rocketpy.errors"]),
    }


def _subjects() -> dict[str, type]:
    """The classes of the attributes of an admin client."""
    made = client.AdminClient(instance=typing.cast(typing.Any, None))
    return {name: type(value) for name, value in vars(made).items() if not name.startswith("_")}


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, errors.RocketpyError)


def _public_calls(public: object) -> Iterator[Callable[..., object]]:
    """Yield a function, or the public methods of a class; clients are opened, so their constructors are internal."""
    if not isinstance(public, type):
        yield inspect.unwrap(typing.cast(Callable[..., object], public))
        return
    for name, member in vars(public).items():
        function = member.fget if isinstance(member, property) else inspect.unwrap(member) if callable(member) else None
        if not name.startswith("_") and inspect.isroutine(function):
            yield function


def _types_in(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
    for argument in typing.get_args(hint):
        yield from _types_in(argument)

"""Public names of the client as pages write them: ``Class.attribute``, ``call(parameter)``, ``admin.part.call``."""

from __future__ import annotations

import inspect
import typing

import attrs

from rocketpy import client
from rocketpy.client import AdminClient


def find_public_name(name: str) -> None:
    """Raise AttributeError for a name that is not there, AssertionError for a parameter."""
    path, _, parameter = name.rstrip(")").partition("(")
    first, *rest = path.split(".")
    found: object = AdminClient(instance=typing.cast(typing.Any, None)) if first == "admin" else getattr(client, first)
    for each in rest:
        of_instances = inspect.isclass(found) and attrs.has(found) and each in attrs.fields_dict(found)
        found = None if of_instances else getattr(found, each)
    if parameter:
        assert parameter in inspect.signature(typing.cast(typing.Callable[..., object], found)).parameters, name

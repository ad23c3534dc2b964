"""Options that several commands have, declared once: a class whose fields are options, and a parameter of that class.

::

    @attrs.frozen(kw_only=True)
    class Output:
        directory: Annotated[str, typer.Option("--output")] = ""

    @with_option_groups
    def trace(wanted: Wanted, output: Output) -> None: ...  # rocketpy pipeline trace ID --output DIR

Typer reads the options of a command from the parameters of a function. The decorated function has those of the fields
in place of the parameter.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import attrs


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters of an attrs class are given by the fields of that class, each an option."""
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[type[Any], list[str]]] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if not attrs.has(hints[name]):
            parameters.append(_option(name, hints[name], parameter.default))
            continue
        of_fields = get_type_hints(hints[name], include_extras=True)
        fields = attrs.fields(hints[name])
        groups[name] = hints[name], [field.name for field in fields]
        parameters += [_option(field.name, of_fields[field.name], field.default) for field in fields]

    @functools.wraps(command)
    def call(**values: Any) -> None:
        made = {name: group(**{each: values.pop(each) for each in fields}) for name, (group, fields) in groups.items()}
        command(**values, **made)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _option(name: str, hint: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)

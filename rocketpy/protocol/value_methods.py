"""Equality, hash and text of header and body values, written once for all of their classes.

``attrs`` would generate and compile the three for each class at import, and keep them. Values are compared and printed
in tests, tools and logs, not per message, so these methods may look the attributes up by name.
"""

from __future__ import annotations

import attrs


class ValueMethods:
    """Base of ``@attrs.frozen`` classes; such a class compares, hashes and prints as it would without this base.

    ``attrs`` leaves out a method that is in the body of the class, not one that is inherited. So the methods are put
    into each class before the decorator sees it.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Put the methods into the class, except those that it defines itself."""
        for name in _SHARED:
            if name not in vars(cls):
                setattr(cls, name, vars(ValueMethods)[name])

    def __eq__(self, other: object) -> bool:
        """Return whether both have the very same class and equal attributes."""
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, each.name) == getattr(other, each.name) for each in _attributes(self) if each.eq)

    def __hash__(self) -> int:
        """Return a hash of the class and the attributes; TypeError when one of them has none."""
        return hash((self.__class__, *(getattr(self, each.name) for each in _attributes(self) if each.eq)))

    def __repr__(self) -> str:
        """Return the class and its attributes by name, without those that keep out of it (``repr=False``)."""
        shown = [f"{each.name}={getattr(self, each.name)!r}" for each in _attributes(self) if each.repr]
        return f"{self.__class__.__qualname__.rsplit('>.', 1)[-1]}({', '.join(shown)})"


_SHARED = ("__eq__", "__hash__", "__repr__")


def _attributes(value: object) -> tuple[attrs.Attribute[object], ...]:
    attributes: tuple[attrs.Attribute[object], ...] = vars(value.__class__)["__attrs_attrs__"]
    return attributes

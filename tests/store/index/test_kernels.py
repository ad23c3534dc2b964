"""The kernels are taken where they are compiled, and only there."""

from __future__ import annotations

from rocketpy import BUILD
from rocketpy.store.index.kernels import KERNELS, index_kernels


def test_they_are_taken_where_they_are_compiled() -> None:
    assert (KERNELS is not None) == BUILD.has_kernels
    assert KERNELS in (None, index_kernels())

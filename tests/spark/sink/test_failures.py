"""The fault of a row says where it is."""

from __future__ import annotations

from rocketpy.spark.sink.failures import RowFault


def test_a_fault_names_the_position_of_its_row() -> None:
    fault = RowFault(7, "the body is null")
    assert (str(fault), fault.position) == ("row 7: the body is null", 7)

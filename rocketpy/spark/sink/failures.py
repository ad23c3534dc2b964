"""The one error of the sink: it says in a sentence which row, or which option, and what to do."""

from __future__ import annotations

from rocketpy.errors import RocketpyError


class SinkError(RocketpyError):
    """Rows cannot be written. The message begins with the rows (partition, positions, topic, size) it is about."""


class RowFault(Exception):
    """A fault of one row of a record batch, by its position there; the writer says where the batch was."""

    def __init__(self, position: int, fault: str) -> None:
        super().__init__(f"row {position}: {fault}")
        self.position = position
        self.fault = fault

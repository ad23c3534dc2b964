"""Faults of the disks of a pair's machines, arranged before they happen."""

from __future__ import annotations

from rocketpy.testing.pair.machines import UNLIMITED_BYTES, Machines


class Disks:
    """The disks of all machines, by the names of these."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines

    def fill(self, name: str, free_bytes: int) -> None:
        """Leave so much space on a disk."""
        self._machines.disturb()
        disk = self._machines[name].host.disk
        disk.capacity_bytes = UNLIMITED_BYTES
        disk.capacity_bytes = UNLIMITED_BYTES - disk.free_bytes(self._machines.config.root) + free_bytes

    def free(self, name: str) -> None:
        """Give a disk all the space it wants."""
        self._machines.disturb()
        self._machines[name].host.disk.capacity_bytes = UNLIMITED_BYTES

    def fail_call(self, name: str, method: str, call: int) -> None:
        """Let a call of a disk fail, once, in the current life."""
        self._machines.disturb()
        self._machines.failing.add(name)
        self._machines[name].host.disk.fail_call(method, call)

    def die_at_call(self, name: str, call: int) -> None:
        """Let the process die in a call that changes its disk, instead of in any other one."""
        self._machines.disturb()
        self._machines[name].host.disk.die_at_call(call)

    def stay_alive(self, name: str) -> None:
        """Take back a death that was arranged."""
        self.die_at_call(name, UNLIMITED_BYTES)

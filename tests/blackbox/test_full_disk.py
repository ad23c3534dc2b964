"""A disk that fills up: sends are refused with a reason, reads go on, and sends work again when there is space.

The broker runs in a mount namespace of its own with a small tmpfs for its store, so that nothing is left of it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.blackbox import processes
from tests.blackbox.ports import free_ports
from tests.blackbox.processes import Process
from tests.blackbox.wire import SERVICE_NOT_AVAILABLE, SUCCESS, Response, Wire

pytestmark = pytest.mark.blackbox

DISK_SIZE = 48 << 20
FILLER_SIZE = 20 << 20
BODY = b"x" * 60_000


@attrs.frozen
class SmallDisk:
    """A running broker whose store is on a disk of 48 MiB, seen from outside its namespace through /proc."""

    broker: Process
    namesrv: str
    address: str
    mounted: Path

    def seen(self, name: str) -> Path:
        """Return the path by which we reach a file of the disk."""
        return Path(f"/proc/{self.broker.pid}/root{self.mounted}") / name

    def fill(self) -> None:
        """Take space as another program would."""
        self.seen("filler").write_bytes(b"\0" * FILLER_SIZE)

    def relieve(self) -> None:
        """Give that space back."""
        self.seen("filler").unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A broker in a mount namespace of its own; skips where that is not allowed."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    mount = f'mount -t tmpfs -o size={DISK_SIZE} tmpfs "{mounted}"'
    trial = subprocess.run(["unshare", "--mount", "sh", "-c", mount], capture_output=True, check=False)
    if trial.returncode != 0:
        pytest.skip(f"no mount of a small disk here: {trial.stderr.decode().strip()}")
    first = free_ports(6)
    nameserver = processes.start_nameserver(tmp_path / "nameserver", first)
    settings = {
        **processes.broker_settings(tmp_path, first + 4, f"127.0.0.1:{first}"),
        "storePathRootDir": mounted / "store",
        "storePathCommitLog": mounted / "store" / "commitlog",
        "mappedFileSizeCommitLog": 4 << 20,
        "mappedFileSizeConsumeQueue": 20_000,
        "maxHashSlotNum": 1000,
        "maxIndexNum": 4000,
    }
    # exec keeps the process id, so that what we end is the broker.
    wrap = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    broker = processes.start_broker(tmp_path, settings, wrap=wrap)
    try:
        processes.await_brokers(f"127.0.0.1:{first}", {"broker-0"}, [broker, nameserver])
        yield SmallDisk(broker, f"127.0.0.1:{first}", f"127.0.0.1:{first + 4}", mounted)
    finally:
        statuses = broker.terminate(), nameserver.terminate()
    assert statuses == (0, 0), broker.log()


def send_until_refused(wire: Wire) -> tuple[int, Response]:
    """Send until the broker refuses; return how many it took and the refusal."""
    for count in range(2 * DISK_SIZE // len(BODY)):
        response = wire.send("Full", 0, BODY)
        if response.code != SUCCESS:
            return count, response
    raise AssertionError("more than the disk holds was acknowledged")


def test_a_full_disk_refuses_sends_until_there_is_space(small_disk: SmallDisk) -> None:
    small_disk.fill()
    with Wire(small_disk.address) as wire:
        count, refusal = send_until_refused(wire)
        assert count > 0
        assert refusal.code == SERVICE_NOT_AVAILABLE
        assert str(small_disk.mounted) in refusal.remark
        assert any(each.isdigit() for each in refusal.remark.replace(str(small_disk.mounted), "")), refusal.remark
        assert wire.send("Full", 0, BODY).code == SERVICE_NOT_AVAILABLE
        assert [each.body for each in wire.pull_all("Full", 0, 0, count)] == [BODY] * count
        assert small_disk.broker.is_running()

        small_disk.relieve()
        response = wire.send_until_stored("Full", b"after")
        offset = int(response.fields["queueOffset"])
        assert offset == count, "a refused message took an offset"
        assert [each.body for each in wire.pull_all("Full", 0, offset, offset + 1)] == [b"after"]
    assert "Traceback" not in small_disk.broker.log()


def test_a_full_disk_does_not_hinder_a_clean_shutdown(small_disk: SmallDisk) -> None:
    small_disk.fill()
    with Wire(small_disk.address) as wire:
        send_until_refused(wire)
    # The fixture ends the broker and looks at its exit status.

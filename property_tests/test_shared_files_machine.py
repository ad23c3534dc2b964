"""Two brokers of ``--groups`` change the files that they share, in every order of their calls of the disk.

The machine itself is in ``shared_files_machine.py``; here are deliberate bugs, each of which it must find by a script,
and the common ones by chance. The first seven are what was there once: a common temporary name, no lock, and changes
that were merged into, and checked against, what a broker had in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from hypothesis import settings

from property_tests.hunts import Bug, Function, MachineTests, Wrong
from property_tests.shared_files_machine import ACCOUNTS, READER, SETTINGS, Promise, SharedFiles
from rocketpy.broker import live_settings
from rocketpy.broker.acl.acl_files import AclFiles
from rocketpy.store.disk import text_files

TestSharedFiles = SharedFiles.TestCase
TestSharedFiles.settings = settings(stateful_step_count=20)

# ---- disks that are used in a wrong way -----------------------------------------------------------------------------


class _Wrong:
    """A disk that makes all calls of another one."""

    def __init__(self, disk: Any) -> None:
        self.disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self.disk, name)


class _Unlocked(_Wrong):
    """Each process has a lock of its own: what keeps apart the threads of one."""

    def wait_lock(self, path: str) -> Any:
        return _NoLock()


class _NoLock:
    def release(self) -> None:
        pass


class _Renamed(_Wrong):
    """Some files have other names; a file that is renamed to its own name is where it is."""

    def name(self, path: str) -> str:
        raise NotImplementedError

    def open(self, path: str, **how: Any) -> Any:
        return self.disk.open(self.name(path), **how)

    def create_private(self, path: str) -> Any:
        return self.disk.create_private(self.name(path))

    def exists(self, path: str) -> Any:
        return self.disk.exists(self.name(path))

    def unlink(self, path: str) -> None:
        self.disk.unlink(self.name(path))

    def copy_mode(self, path: str, new_path: str) -> None:
        pass

    def rename(self, path: str, new_path: str) -> None:
        if self.name(path) != new_path:
            self.disk.rename(self.name(path), new_path)


class _OwnTemporaryNames(_Renamed):
    """Without a lock, but no file is torn: a process has temporary names of its own."""

    def wait_lock(self, path: str) -> Any:
        return _NoLock()

    def name(self, path: str) -> str:
        return f"{path}.{id(self.disk)}" if path.endswith(".tmp") else path


class _FileInPlace(_Renamed):
    def name(self, path: str) -> str:
        return path if path.endswith(".bak.tmp") else path.removesuffix(".tmp")


class _BackupInPlace(_Renamed):
    def name(self, path: str) -> str:
        return path.removesuffix(".tmp") if path.endswith(".bak.tmp") else path


class _LockByName(_Wrong):
    """A file that is there is locked. That of a process that has died stays."""

    def wait_lock(self, path: str) -> Any:
        self.disk.create_private(path).close()
        return _Name(self.disk, path)


class _Name:
    def __init__(self, disk: Any, path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk.unlink(self._path)


class _InMemory(_Wrong):
    """What a change is merged into is the text that the process has read or written last."""

    def __init__(self, disk: Any) -> None:
        super().__init__(disk)
        self._texts: dict[str, bytes] = {}
        self._is_first_read = False

    def wait_lock(self, path: str) -> Any:
        lock = self.disk.wait_lock(path)
        self._is_first_read = True
        return lock

    def open(self, path: str, **how: Any) -> Any:
        file = self.disk.open(path, **how)
        if path in (SETTINGS, ACCOUNTS) and self._is_first_read:
            self._is_first_read = False
            if path in self._texts:
                file.close()
                return _Text(self._texts[path])
            self._texts[path] = file.read(0, file.size())
        return file

    def rename(self, path: str, new_path: str) -> None:
        self.disk.rename(path, new_path)
        if new_path in (SETTINGS, ACCOUNTS):
            file = self.disk.open(new_path, read_only=True)
            self._texts[new_path] = file.read(0, file.size())
            file.close()


class _Text:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def size(self) -> int:
        return len(self._content)

    def read(self, position: int, size: int) -> bytes:
        return self._content

    def close(self) -> None:
        pass


# ---- the changes ----------------------------------------------------------------------------------------------------


def _settings_on(wrong_disk: Any) -> Wrong:
    def of(rewrite: Function) -> Function:
        wrong_disks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # one for each process

        def rewrite_wrongly(disk: Any, *arguments: Any, **others: Any) -> None:
            if disk not in wrong_disks:
                wrong_disks[disk] = wrong_disk(disk)
            rewrite(wrong_disks[disk], *arguments, **others)

        return rewrite_wrongly

    return of


def _accounts_on(wrong_disk: Any) -> Wrong:
    def of(init: Function) -> Function:
        return lambda self, *, directory, disk: init(self, directory=directory, disk=wrong_disk(disk))

    return of


def _without_check(rewrite: Function) -> Function:
    return lambda *arguments, check, **others: rewrite(*arguments, **others)


def _locks_the_write_only(sole_writer: Function) -> Function:
    """Whoever has read the file before may have read an old one."""

    @contextmanager
    def too_late(disk: Any, path: str) -> Iterator[None]:
        with sole_writer(disk, path):
            pass
        yield

    return too_late


# ---- scripts --------------------------------------------------------------------------------------------------------


def _runs(state: SharedFiles, which: int) -> None:
    state.steps(which, 1_000)


def _both(state: SharedFiles, change: Any, *, every: int) -> None:
    """One broker makes some steps, more each time, then the other all that it can, then the first the rest."""
    state.first_start()
    for count in range(1, 45, every):
        change(state, 0, 2 * count)
        state.steps(0, count)
        change(state, 1, 2 * count + 1)
        _runs(state, 1)
        _runs(state, 0)
        _runs(state, 1)
        if count % 2 == 0:
            state.power_fails(count)


def two_brokers_set(state: SharedFiles) -> None:
    _both(state, lambda state, which, number: state.sets(which, ("alpha", "beta")[which], number % 10), every=3)


def two_brokers_set_a_pair(state: SharedFiles) -> None:
    """Each of the values goes with what its broker knows, and they do not go together."""
    state.first_start()
    state.sets(0, "low", 7)
    _runs(state, 0)
    state.sets(1, "high", 5)
    _runs(state, 1)


def two_brokers_permit(state: SharedFiles) -> None:
    def change(state: SharedFiles, which: int, number: int) -> None:
        state.permits(which, ("orders-app", "billing-app")[which], ("PUB", "SUB", "DENY")[number % 3])

    _both(state, change, every=5)


def both_remove_the_only_account(state: SharedFiles) -> None:
    state.first_start()
    state.removes(0, "only-one")
    state.removes(1, "only-one")
    _runs(state, 0)
    _runs(state, 1)


def one_dies(state: SharedFiles) -> None:
    """The other makes its change all the same, and a reader that has begun before finds a whole file."""
    state.first_start()
    for count in range(1, 45, 7):
        for path in (SETTINGS, ACCOUNTS) if count % 2 else (SETTINGS,):
            _changes(state, 0, path, count)
            state.reads(path)
            state.steps(READER, 2)
            state.steps(0, count)
            state.dies(0)
            _changes(state, 1, path, count)
            _runs(state, 1)
            _runs(state, READER)


def _changes(state: SharedFiles, which: int, path: str, number: int) -> None:
    if path == SETTINGS:
        state.sets(which, "alpha", number % 10)
    else:
        state.permits(which, "orders-app", ("PUB", "SUB")[which])


def a_file_that_is_not_there(state: SharedFiles) -> None:
    state.first_start(has_settings=False)
    for which in (0, 1):
        state.sets(which, ("alpha", "beta")[which], 1)
    for _ in range(60):
        state.steps(0, 1)
        state.steps(1, 1)


_TORN = (Promise.WHOLE, Promise.SERVES, Promise.BACKUP, Promise.READ)
_LOST = (Promise.KEPT, Promise.ANSWERED, Promise.WHOLE)  # if the last lines are lost, the rest is no whole version
PLANTED: Mapping[str, Bug] = {
    "settings have a common temporary name and no lock": Bug(
        live_settings, "rewrite_properties_file", _settings_on(_Unlocked), (*_TORN, *_LOST), two_brokers_set
    ),
    "settings have no lock": Bug(
        live_settings, "rewrite_properties_file", _settings_on(_OwnTemporaryNames), _LOST, two_brokers_set
    ),
    "settings are merged into the copy in memory": Bug(
        live_settings, "rewrite_properties_file", _settings_on(_InMemory), _LOST, two_brokers_set
    ),
    "accounts have a common temporary name and no lock": Bug(
        AclFiles, "__init__", _accounts_on(_Unlocked), (*_TORN, *_LOST), two_brokers_permit
    ),
    "accounts have no lock": Bug(AclFiles, "__init__", _accounts_on(_OwnTemporaryNames), _LOST, two_brokers_permit),
    "accounts are merged into the copy in memory": Bug(
        AclFiles, "__init__", _accounts_on(_InMemory), _LOST, two_brokers_permit, is_common=False
    ),
    "settings are checked with those in memory only": Bug(
        live_settings,
        "rewrite_properties_file",
        _without_check,
        (Promise.STARTS,),
        two_brokers_set_a_pair,
        is_common=False,
    ),
    "the lock is let go before the change": Bug(
        text_files, "sole_writer", _locks_the_write_only, (*_TORN, *_LOST), two_brokers_set, is_common=False
    ),
    "the file is written in place": Bug(
        live_settings,
        "rewrite_properties_file",
        _settings_on(_FileInPlace),
        (Promise.WHOLE,),
        two_brokers_set,
        is_common=False,
    ),
    "the backup is written in place": Bug(
        AclFiles, "__init__", _accounts_on(_BackupInPlace), (Promise.BACKUP,), two_brokers_permit, is_common=False
    ),
    "the lock of a program that has died stays": Bug(
        live_settings,
        "rewrite_properties_file",
        _settings_on(_LockByName),
        (Promise.SERVES,),
        one_dies,
        is_common=False,
    ),
}


class TestScripts(MachineTests):
    machine, bugs = SharedFiles, PLANTED
    more_scripts = (both_remove_the_only_account, one_dies, a_file_that_is_not_there)

"""The rules by which two brokers change the files that they share, and the model that the files are held against.

Two brokers of ``--groups`` have the file of ``-c`` and plain_acl.yml in common. Each makes changes by request, one at a
time; a third program reads. All of them make their calls of the simulated disk in any order, step by step, and any of
them may die before any call, or in the middle of a write (:mod:`property_tests.stepwise`).

The model is the versions that each file has had: its text, and the settings or accounts that the text must have. After
each step of a program a file is as before it, or it has exactly the one change that this program makes: see
:class:`Promise`.

::

    a broker                                              the change that it makes

      idle <--------------------------------+               not in the file
        | sets, permits, removes, reads_again |               | a step: the file is another one, once
        v                                   |               v
      busy -- steps ------------------------+ answered     in the file
        |                                                   | answered: durable
        +-- dies, power_fails --> idle, and has read the files anew
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from random import Random
from typing import Any, NoReturn

import attrs
import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from property_tests.hunts import PromiseBroken, broken_unless_done
from property_tests.stepwise import Program
from rocketpy.broker.acl.acl_document import read_acl_document
from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.acl_files import AclFiles
from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.broker.live_settings import LiveSettings
from rocketpy.clock import ManualClock
from rocketpy.errors import RocketpyError, SettingsError
from rocketpy.properties_text import read_properties
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.runner import run_inline
from rocketpy.settings import setting, settings_from_text
from rocketpy.store.disk.text_files import persist_text, read_text
from rocketpy.testing.sim.disk import SimDisk

DIRECTORY = "/conf"
SETTINGS, ACCOUNTS = f"{DIRECTORY}/broker.conf", f"{DIRECTORY}/plain_acl.yml"
FIRST_SETTINGS = "# of all groups\nlow=1\n\n# as measured\nhigh = 8\n"
END = "# the end\n"
FIRST_ACCOUNTS = f"""\
# ask before you change this
globalWhiteRemoteAddresses:
  - 10.0.0.9  # the office
accounts:
  # the first one
  - accessKey: only-one
    secretKey: 12345678
    defaultTopicPerm: PUB
dataVersion:
  - counter: 1
    timestamp: 1
{END}"""

KEYS = ("alpha", "beta", "low", "high")
NAMES = ("only-one", "orders-app", "billing-app")
PERMISSIONS = ("PUB", "SUB", "DENY")
READER = 2

brokers = st.sampled_from([0, 1])
programs = st.sampled_from([0, 1, READER])
step_counts = st.sampled_from([1, 2, 3, 5, 8, 13, 40])


class Promise(Enum):
    """What holds of a shared file, whoever changes it, reads it or dies, and whenever."""

    WHOLE = "at every moment the file is one of its versions, whole"
    KEPT = "a change changes what it is about, and nothing else is lost: other changes, comments, order"
    ANSWERED = "what was answered is in the file, and survives a loss of power; what was refused is not"
    READ = "who reads finds a version that the file had while it was read"
    BACKUP = "the backup is a version that was there before, whole"
    STARTS = "a start succeeds with what the file has"
    SERVES = "a change is answered, whatever another does, and nobody waits for a program that has died"


@attrs.frozen(kw_only=True)
class Shared:
    """Settings, two of which must go together."""

    alpha: int = setting(0, live=True)
    beta: int = setting(0)
    low: int = setting(0, live=True)
    high: int = setting(9)


def check(values: Sequence[object]) -> None:
    """Refuse what a start would refuse."""
    (shared,) = values
    assert isinstance(shared, Shared)
    if shared.low >= shared.high:
        raise SettingsError("low: expected less than high")


@attrs.frozen
class Version:
    """A text of a file, and what must be in it: lines of settings, or counter and accounts with their permission."""

    text: str | None
    content: Any


@attrs.define(eq=False)
class Change:
    """A change that a broker makes."""

    path: str
    apply: Callable[[Any], Any]
    """Returns the content with the change in it."""

    version: int | None = None
    """Which version of the file it has made."""

    may_be_done: bool = False
    """The file had been before as the change makes it, so that nobody can see when it is done."""

    @property
    def is_done(self) -> bool:
        """Whether the file has it."""
        return self.version is not None


@attrs.define(eq=False)
class Broker:
    """A broker, as far as it has to do with the two files."""

    program: Program
    settings: LiveSettings
    accounts: PlainPermissionManager
    change: Change | None = None
    version_read: int = 0
    """Which version of the accounts there was when it began to read them."""


def with_setting(lines: tuple[str, ...], key: str, value: int) -> tuple[str, ...]:
    """Return the lines of a settings file with one value changed where it is, or added at the end."""
    if not any(line.partition("=")[0].strip() == key for line in lines):
        return (*lines, f"{key}={value}")
    return tuple(f"{key}={value}" if line.partition("=")[0].strip() == key else line for line in lines)


def with_permission(content: Any, name: str, permission: str | None) -> Any:
    """Return counter and accounts with one changed where it is, added at the end, or removed."""
    counter, accounts = content
    changed = {**accounts, name: permission}
    if permission is None:
        del changed[name]
    return counter + 1, changed


def comments_of(text: str) -> list[str]:
    """Return the comments of a text in their order."""
    return ["#" + line.partition("#")[2] for line in text.splitlines() if "#" in line]


class SharedFiles(RuleBasedStateMachine):
    """Two brokers and a reader of two files."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False
        self.disk = SimDisk()
        self.brokers: list[Broker] = []
        self.holders: dict[str, Program] = {}
        self.reader = Program(self.disk, self.holders)
        self._reading: tuple[str, int] = ("", 0)  # what the reader reads, and the version that was there when it began
        self.versions: dict[str, list[Version]] = {}
        self.durable: dict[str, int] = {SETTINGS: 0, ACCOUNTS: 0}  # the version up to which changes were answered

    # ---- rules ------------------------------------------------------------------------------------------------------

    @initialize(has_settings=st.booleans())
    def first_start(self, *, has_settings: bool = True) -> None:
        self.disk.make_directories(DIRECTORY)
        if has_settings:
            persist_text(self.disk, SETTINGS, FIRST_SETTINGS)
        persist_text(self.disk, ACCOUNTS, FIRST_ACCOUNTS)
        self.disk.sync_directory(DIRECTORY)
        self.disk.sync_directory("/")
        text = FIRST_SETTINGS if has_settings else None
        self.versions = {
            SETTINGS: [Version(text, tuple((text or "").splitlines()))],
            ACCOUNTS: [Version(FIRST_ACCOUNTS, (1, {"only-one": "PUB"}))],
        }
        self.brokers = [self._started(Program(self.disk, self.holders)) for _ in range(2)]

    @rule(which=brokers, key=st.sampled_from(KEYS), value=st.integers(0, 9))
    def sets(self, which: int, key: str, value: int) -> None:
        settings = self.brokers[which].settings
        change = Change(SETTINGS, lambda lines: with_setting(lines, key, value))
        self._begin(which, change, lambda: trio.run(settings.update, f"{key}={value}"))

    @rule(which=brokers, name=st.sampled_from(NAMES), permission=st.sampled_from(PERMISSIONS))
    def permits(self, which: int, name: str, permission: str) -> None:
        account = PlainAccessConfig(name, "12345678", default_topic_perm=permission)
        change = Change(ACCOUNTS, lambda content: with_permission(content, name, permission))
        self._begin(which, change, lambda: trio.run(self.brokers[which].accounts.update_account, account))

    @rule(which=brokers, name=st.sampled_from(NAMES))
    def removes(self, which: int, name: str) -> None:
        change = Change(ACCOUNTS, lambda content: with_permission(content, name, None))
        self._begin(which, change, lambda: trio.run(self.brokers[which].accounts.delete_account, name))

    @rule(which=brokers)
    def reads_again(self, which: int) -> None:
        """As every broker does twice a second."""
        self._begin(which, None, lambda: trio.run(self.brokers[which].accounts.reload))

    @rule(path=st.sampled_from([SETTINGS, ACCOUNTS]))
    def reads(self, path: str) -> None:
        """A program that starts, or a person."""
        if self.reader.is_busy:
            return
        self._reading = path, len(self.versions[path]) - 1
        files = AclFiles(directory=DIRECTORY, disk=self.reader.disk)
        with broken_unless_done(self):
            if path == ACCOUNTS:
                self.reader.begin(lambda: files.read_text(ACCOUNTS))
            else:
                self.reader.begin(lambda: read_text(self.reader.disk, SETTINGS))

    @rule(which=programs, count=step_counts)
    def steps(self, which: int, count: int) -> None:
        program = self._program(which)
        with broken_unless_done(self):
            for _ in range(count):
                if not program.may_step:
                    return
                program.step()
                self._check_files(which)
                if not program.is_busy:
                    self._check_end(which)

    @rule(which=programs)
    def dies(self, which: int) -> None:
        """A broker that has died is started again."""
        with broken_unless_done(self):
            self._program(which).die()
            self._check_files(which)
            if which != READER:
                self.brokers[which] = self._started(self.brokers[which].program)

    @rule(seed=st.integers(0, 1_000))
    def power_fails(self, seed: int = 0) -> None:
        with broken_unless_done(self):
            for each in (0, 1, READER):
                self._program(each).die()
            self.disk.lose_power(Random(seed).randrange)
            for path, versions in self.versions.items():
                text = self._text(path)
                found = [at for at, version in enumerate(versions) if version.text == text]
                if not found or found[-1] < self.durable[path]:
                    self._broken(
                        Promise.ANSWERED if found else Promise.WHOLE, f"{path} after a loss of power: {text!r}"
                    )
                del versions[found[-1] + 1 :]
            for each in (0, 1):
                self.brokers[each] = self._started(self.brokers[each].program)

    def teardown(self) -> None:
        try:
            if not self.is_broken and self.brokers:
                self._finish()
        finally:
            for each in (*(broker.program for broker in self.brokers), self.reader):
                each.die()

    # ---- private ----------------------------------------------------------------------------------------------------

    def _program(self, which: int) -> Program:
        return self.reader if which == READER else self.brokers[which].program

    def _started(self, program: Program) -> Broker:
        """Return a broker that has just read the files. It starts as fast as nothing else happens meanwhile."""
        loaded = settings_from_text(self._text(SETTINGS) or "", SETTINGS, Shared)
        settings = LiveSettings(
            loaded.values,
            path=SETTINGS,
            unknown={},
            check=check,
            disk=program.disk,
            run_blocking=run_inline,
            clock=ManualClock(),
        )
        accounts = PlainPermissionManager(
            files=AclFiles(directory=DIRECTORY, disk=program.disk),
            run_blocking=run_inline,
            clock=ManualClock(),
            is_strict=False,
        )
        accounts.load()
        return Broker(program, settings, accounts)

    def _begin(self, which: int, change: Change | None, work: Callable[[], object]) -> None:
        broker = self.brokers[which]
        if broker.program.is_busy:
            return
        broker.change = change
        broker.version_read = len(self.versions[ACCOUNTS]) - 1
        with broken_unless_done(self):
            broker.program.begin(work)
            if not broker.program.is_busy:
                self._check_end(which)

    def _finish(self) -> None:
        """Let all come to their ends."""
        everyone = (0, 1, READER)
        while any(self._program(each).is_busy for each in everyone):
            able = [each for each in everyone if self._program(each).may_step]
            if not able:
                self._broken(Promise.SERVES, "everyone waits for a lock that nobody lets go")
            self.steps(able[0], 1)

    # ---- the model --------------------------------------------------------------------------------------------------

    def _broken(self, promise: Promise, what: str) -> NoReturn:
        self.is_broken = True
        raise PromiseBroken(promise, what)

    def _text(self, path: str) -> str | None:
        content = self.disk.peek(DIRECTORY).get(path.removeprefix(f"{DIRECTORY}/"))
        return None if content is None else content.decode()

    def _check_files(self, which: int) -> None:
        """Each file is as it was, or has the change of the program that has just made a step."""
        change = None if which == READER else self.brokers[which].change
        for path, versions in self.versions.items():
            text, last = self._text(path), versions[-1]
            if change is not None and change.path == path and change.apply(last.content) == last.content:
                change.may_be_done = True
            if text != last.text:
                if change is None or change.path != path or change.is_done:
                    self._broken(self._promise_of(path, text), f"{path} has a change of another: {text!r}")
                version = Version(text, change.apply(last.content))
                if text is None or not self._is_right(path, text, version.content):
                    self._broken(self._promise_of(path, text), f"{path}: expected {version.content}, found {text!r}")
                if path == SETTINGS and not _is_startable(text):
                    self._broken(Promise.STARTS, f"{path} is {text!r}")
                versions.append(version)
                change.version = len(versions) - 1
            backup = self._text(path + ".bak")
            # After a loss of power the file may be there in its new version, and the backup in the last one but one.
            if backup is not None and backup not in [version.text for version in versions[-3:]]:
                self._broken(Promise.BACKUP, f"{path}.bak is {backup!r}")

    def _is_right(self, path: str, text: str, content: Any) -> bool:
        if path == SETTINGS:
            return text == "".join(f"{line}\n" for line in content)
        try:
            document = read_acl_document(text)
        except AclError:
            return False
        found = [(each.access_key, each.default_topic_perm) for each in document.accounts]
        counter = document.version.counter if document.version is not None else 0
        is_right = (counter, found) == (content[0], list(content[1].items()))
        return is_right and comments_of(text) == comments_of(FIRST_ACCOUNTS)

    def _promise_of(self, path: str, text: str | None) -> Promise:
        """Return what a wrong text breaks: a part of a text is not whole, another whole text has lost something."""
        contents = [version.text or "" for version in self.versions[path]]
        if path == SETTINGS:
            changes = [broker.change for broker in self.brokers if broker.change is not None]
            lines = [each.apply(self.versions[path][-1].content) for each in changes if each.path == path]
            contents += ["".join(f"{line}\n" for line in each) for each in lines]
        if not text or not text.endswith("\n") or (path == ACCOUNTS and not text.endswith(END)):
            return Promise.WHOLE
        is_part = any(each.startswith(text) for each in contents) and text not in contents
        return Promise.WHOLE if is_part else Promise.KEPT

    def _check_end(self, which: int) -> None:
        """A program has come to the end of its work: with what it was to do, or with a refusal."""
        program = self._program(which)
        failure = program.failure
        if failure is not None and not isinstance(failure, SettingsError):
            if not isinstance(failure, (RocketpyError, AssertionError)):
                raise failure
            self._broken(Promise.SERVES, f"ended by {failure!r}")
        if which == READER:
            path, begin = self._reading
            if (program.result or None) not in [version.text for version in self.versions[path][begin:]]:
                self._broken(Promise.READ, f"{path} was read as {program.result!r}")
            return
        broker = self.brokers[which]
        change, broker.change = broker.change, None
        begin = 0
        if change is not None:
            is_accepted = failure is None and program.result is not False  # False: no such account
            if is_accepted is not change.is_done and not (is_accepted and change.may_be_done):
                self._broken(Promise.ANSWERED, f"{change.path}: accepted {is_accepted}, in the file {change.is_done}")
            if change.version is not None:
                self.durable[change.path] = max(change.version, self.durable[change.path])
        # An account that is not known here is not looked for in the file.
        if change is None or (change.path == ACCOUNTS and program.result is not False):
            begin = broker.version_read if change is None or change.version is None else change.version
        accounts = broker.accounts.config().plain_access_configs or ()
        found = {each.access_key: each.default_topic_perm for each in accounts}
        if found not in [version.content[1] for version in self.versions[ACCOUNTS][begin:]]:
            self._broken(Promise.READ, f"the accounts were read as {found}")


def _is_startable(text: str) -> bool:
    values = {line.key: int(line.value) for line in read_properties(text)}
    return values.get("low", 0) < values.get("high", 9)

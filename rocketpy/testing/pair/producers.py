"""Producers of a pair: what they send, how long they wait, and what they are answered, for the model to judge.

Sends are plain calls of the open store: a call that fails ends its process, as in the broker, with LifeEnded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import attrs
import trio

from rocketpy.errors import StoreError
from rocketpy.protocol.java_hash import tags_code as hash_of_tags
from rocketpy.protocol.properties import PROPERTY_DELAY_TIME_LEVEL, PROPERTY_KEYS, PROPERTY_TAGS, encode_properties
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.config import BrokerRole
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.pair.machines import QUIET_SECONDS, Machines
from rocketpy.testing.pair.observer import Observer
from rocketpy.testing.replication_model import Answer, ReplicationModel
from rocketpy.testing.sim.disk import ProcessDied
from rocketpy.testing.store_contents import delay_ms
from rocketpy.testing.store_world import BORN_HOST, LifeEnded


@attrs.define(eq=False)
class _Wait:
    """A producer that has no answer yet."""

    master: str
    begin_offset: int
    end_offset: int
    began_at: float
    may_have_slave: bool
    followers: Mapping[str, int]
    """The slaves that surely followed when it began, with the number of their connection."""


class Producers:
    """All producers.

    ``forged_at`` returns when a peer that is no slave last wrote to a master; ``kill`` ends a process.
    """

    def __init__(
        self,
        machines: Machines,
        model: ReplicationModel,
        observer: Observer,
        *,
        forged_at: Callable[[], float],
        kill: Callable[[str], None],
    ) -> None:
        self.answers: list[PutMessageStatus] = []
        """Of all producers, in order."""
        self._machines = machines
        self._model = model
        self._observer = observer
        self._forged_at = forged_at
        self._kill = kill
        self._waits: list[_Wait] = []

    # ---- sends ----------------------------------------------------------------------------------------------------
    def put(
        self,
        master: str,
        topic: str,
        queue_id: int,
        body: bytes,
        *,
        keys: Sequence[str] = (),
        tags: str = "",
        delay_level: int = 0,
        sys_flag: int = 0,
        waits: bool = True,
    ) -> PutMessageStatus:
        """Send a message, and wait for its status where the master's settings say so. The burst stays open."""
        properties = _properties(keys, tags, delay_level)
        encoded, now_ms = tuple(key.encode() for key in keys), self._machines[master].host.clock.timestamp_ms()
        with self._plain_call(master) as store:
            if delay_level:
                status, begin, _ = store.put_timed(
                    SCHEDULE_TOPIC, delay_level - 1, body, properties, delay_ms(delay_level), encoded, 0, sys_flag,
                    now_ms, BORN_HOST, 0,
                )  # fmt: skip
            else:
                code = hash_of_tags(tags or None)
                status, begin, _ = store.put(
                    topic, queue_id, body, properties, code, encoded, 0, sys_flag, now_ms, BORN_HOST, 0
                )
            if status is PutMessageStatus.PUT_OK and waits:
                self._wait(master, store, begin)
        return status

    def put_batch(
        self, master: str, topic: str, queue_id: int, bodies: Sequence[bytes], *, keys: Sequence[str] = ()
    ) -> PutMessageStatus:
        """Send messages in one batch, and wait for the last one. The burst stays open."""
        properties, encoded = _properties(keys, "", 0), tuple(key.encode() for key in keys)
        batch = MessageBatch.of([(0, body, properties, hash_of_tags(None), encoded) for body in bodies])
        with self._plain_call(master) as store:
            now_ms = self._machines[master].host.clock.timestamp_ms()
            status, offsets, _ = store.put_batch(topic, queue_id, batch, 0, now_ms, BORN_HOST, 0)
            if status is PutMessageStatus.PUT_OK:
                self._wait(master, store, offsets[0])
        return status

    def end_burst(self, master: str) -> None:
        """Write what was put, and decide on the producers that wait."""
        with self._plain_call(master) as store:
            store.end_burst()

    def wait_again(self, master: str) -> None:
        """Let a producer wait for the last record that is written, whenever it was.

        Nothing happens while the master may count a slave that is gone: it cannot know that the slave's disk is, too.
        """
        now = trio.current_time()
        if any(now - gone_at < self._forgotten_after_s for gone_at in self._observer.gone_at.values()):
            return
        with self._plain_call(master) as store:
            records = self._model.logs[master]
            if records and (store.wrote_offset == max(records) + len(records[max(records)])):
                self._wait(master, store, max(records), is_new=False)
                store.end_burst()

    def check_waits(self) -> None:
        """Report how long producers have waited."""
        for wait in self._waits:
            waited_s = trio.current_time() - wait.began_at
            self._model.waits(wait.master, waited_s=waited_s, timeout_s=self._timeout_s)

    def forget(self, master: str) -> None:
        """Expect no answers of a master that has ended."""
        self._waits = [wait for wait in self._waits if wait.master != master]

    # ---- private --------------------------------------------------------------------------------------------------

    @contextmanager
    def _plain_call(self, name: str) -> Iterator[MessageStore]:
        """Around calls of a store from outside: one that fails ends its process, as in the broker, with LifeEnded."""
        store = self._machines[name].store
        assert store is not None, f"{name} is open"
        try:
            yield store
        except (ProcessDied, StoreError) as error:
            self._machines.require_arranged(name, error)
            self._kill(name)
            raise LifeEnded(error) from error
        self._observer.look_and_raise()

    @property
    def _timeout_s(self) -> float:
        return self._machines.config.slave_timeout / 1000

    @property
    def _forgotten_after_s(self) -> float:
        """How long a master may count a slave that is gone."""
        return self._machines.config.ha_housekeeping_interval / 1000 + QUIET_SECONDS

    def _wait(self, master: str, store: MessageStore, begin_offset: int, *, is_new: bool = True) -> None:
        """Wait for what was put from an offset on.

        No slave needs to acknowledge what is not new: its request says that it has it, which proves nothing.
        """
        if not store.waits_for_storing:
            return
        followers = {
            slave: client.statistics().connect_count
            for slave in self._machines.slaves()
            if is_new
            and (client := self._machines[slave].client) is not None
            and self._machines.surely_follows(slave, master)
        }
        wait = _Wait(
            master,
            begin_offset,
            store.wrote_offset,
            trio.current_time(),
            self._may_have_slave(master),
            followers,
        )
        self._waits.append(wait)
        store.wait_stored(store.wrote_offset, lambda status: self._answered(wait, status))

    def _answered(self, wait: _Wait, status: PutMessageStatus) -> None:
        self._waits.remove(wait)
        self.answers.append(status)
        replica = self._machines[wait.master]
        if replica.role is not BrokerRole.SYNC_MASTER:
            return  # it says nothing about slaves
        self._observer.look()
        answer = Answer(
            master=wait.master,
            begin_offset=wait.begin_offset,
            end_offset=wait.end_offset,
            status=status,
            waited_s=trio.current_time() - wait.began_at,
            timeout_s=self._timeout_s,
            live_slaves=self._live_slaves(wait.master),
            may_have_slave=wait.may_have_slave,
            surely_has_slave=self._has_surely_followed(wait),
            durable_end=replica.durable_end if self._machines.config.is_sync_flush else None,
        )
        self._observer.report(lambda: self._model.answered(answer))

    def _live_slaves(self, master: str) -> list[str]:
        """Return the other machines whose slave processes run, or whose last reports may still be under way.

        Also one that loses power at this very moment: what it acknowledged before may be decided with the same burst.
        """
        now = trio.current_time()
        lost_at = self._machines.without_power
        return [
            name
            for name, replica in self._machines.replicas.items()
            if name != master
            and lost_at.get(name, now) == now
            and (
                name in lost_at
                or (replica.is_open and replica.is_slave)
                or now - self._observer.gone_at.get(name, -1e9) < self._forgotten_after_s
            )
        ]

    def _may_have_slave(self, master: str) -> bool:
        """Whether the master may count some connection as a slave's."""
        now = trio.current_time()
        last_seen = [now] * len(self._machines.slaves()) + [self._forged_at(), *self._observer.gone_at.values()]
        return now - max(last_seen) < self._forgotten_after_s

    def _has_surely_followed(self, wait: _Wait) -> bool:
        """Whether one of the slaves has followed, undisturbed, since a wait began."""
        return any(
            self._machines.surely_follows(slave, wait.master)
            and self._machines.disturbed_at < wait.began_at
            and (client := self._machines[slave].client) is not None
            and client.statistics().connect_count == count
            for slave, count in wait.followers.items()
        )


def _properties(keys: Sequence[str], tags: str, delay_level: int) -> bytes:
    properties = {PROPERTY_KEYS: " ".join(keys), PROPERTY_TAGS: tags}
    if delay_level:
        properties[PROPERTY_DELAY_TIME_LEVEL] = str(delay_level)
    return encode_properties({name: value for name, value in properties.items() if value}).encode()

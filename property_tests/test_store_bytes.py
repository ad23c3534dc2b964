"""Whatever bytes of whatever files of a store are changed: it says where the damage is, or serves what was sent.

Random bytes, zeros, flipped bits, cuts and additions at any position of any file, several at once, in stores after an
clean shutdown and after a kill. :func:`tests.store.damaged.check_sound` says what is right; nothing may hang, and no
error but ours may come out.
"""

from __future__ import annotations

import attrs
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.testing.sim.disk import SimDisk
from tests.store.damaged import ROOT, Snapshot, check_sound, killed_store, look, stopped_store, write_store
from tests.store.parts import Place

NAMES = {snapshot: sorted(snapshot().files) for snapshot in (stopped_store, killed_store)}


@attrs.frozen
class Damage:
    """What is done to one file: ``how`` at ``position``, with these bytes."""

    name: str
    how: str
    position: int
    content: bytes

    def apply(self, files: dict[str, bytes]) -> None:
        """Do it."""
        before = files.get(self.name)
        if before is None:
            return
        position = self.position % (len(before) + 1)
        size = len(self.content)
        if self.how == "gone":
            del files[self.name]
        elif self.how == "cut":
            files[self.name] = before[:position]
        elif self.how == "longer":
            files[self.name] = before + self.content
        else:
            new = self.content
            if self.how == "zeros":
                new = bytes(size)
            elif self.how == "flip":
                new = bytes(byte ^ 1 << (self.content[0] & 7) for byte in before[position : position + 1])
            files[self.name] = (before[:position] + new + before[position + len(new) :])[: len(before)]


def damages(names: list[str]) -> st.SearchStrategy[list[Damage]]:
    """One to three of them."""
    damage = st.builds(
        Damage,
        st.sampled_from(names),
        st.sampled_from(["bytes", "zeros", "flip", "cut", "longer", "gone"]),
        st.integers(0, 1 << 14),
        st.binary(min_size=1, max_size=64),
    )
    return st.lists(damage, min_size=1, max_size=3)


def open_damaged(snapshot: Snapshot, done: list[Damage]) -> None:
    """Damage a copy of a store, open it, and open it once more."""
    files = dict(snapshot.files)
    for damage in done:
        damage.apply(files)
    place = Place(SimDisk(), ROOT)
    write_store(place, files)
    check_sound(snapshot, files, look(place), place)


QUEUE = "consumequeue/%RETRY%group/0/"
FIRST, SECOND = f"{QUEUE}{0:020d}", f"{QUEUE}{400:020d}"


# What it has found once: a queue that ended early, one cut by a file, an entry after the end of an index file.
@example([Damage(SECOND, "bytes", 0, bytes(12))])
@example([Damage(FIRST, "cut", 20, b"x"), Damage("orderly-end", "bytes", 0, b"x")])
@example([Damage("index/20231114221341001", "flip", 1937, b"\x03")])
@example([Damage("checkpoint", "cut", 0, b"x"), Damage(f"commitlog/{0:020d}", "flip", 0, b"x")])
@given(damages(NAMES[stopped_store]))
def test_after_a_clean_shutdown(done: list[Damage]) -> None:
    open_damaged(stopped_store(), done)


# A search among units that one of them misled.
@example([Damage(FIRST, "bytes", 1503, b"\x01"), Damage(SECOND, "bytes", 449, bytes(4))])
@example([Damage(FIRST, "bytes", 0, bytes(8))])
@given(damages(NAMES[killed_store]))
def test_after_a_kill(done: list[Damage]) -> None:
    open_damaged(killed_store(), done)

"""Units that a loss of power may have torn: of the sectors that one lies in the disk has the first and not the second.

Place and size of such a unit can be whole, and only its tagsCode field, or the low half of that, be zeros that were
there before. A tags code whose low half is zero is then not to be believed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketpy.store.layout import UNIT_SIZE

_TAGS_CODE_AT = 12  # in a unit
_TAGS_CODE_SIZE = UNIT_SIZE - _TAGS_CODE_AT
_SECTOR_SIZE = 512  # what a disk writes whole, at least
_LOW_HALF = 0xFFFF_FFFF


def may_be_torn(position: int, tags_code: int) -> bool:
    """Whether the tagsCode field of a unit may be torn. ``position`` is the unit's, in its file."""
    is_cut = -(position + _TAGS_CODE_AT) % _SECTOR_SIZE < _TAGS_CODE_SIZE
    return is_cut and not tags_code & _LOW_HALF


def first_torn(position: int, tags_codes: Sequence[int]) -> int:
    """Return the number of the first of adjoining units that may be torn, or how many there are.

    The first of them is at ``position`` in the file. Only those at the border of a sector are looked at.
    """
    begin = position + _TAGS_CODE_AT
    end = begin + len(tags_codes) * UNIT_SIZE
    for sector in range(-(-begin // _SECTOR_SIZE) * _SECTOR_SIZE, end, _SECTOR_SIZE):
        number, inside = divmod(sector - begin, UNIT_SIZE)
        if inside < _TAGS_CODE_SIZE and not tags_codes[number] & _LOW_HALF:
            return number
    return len(tags_codes)

"""An SQL92 selector over the bytes of records: the properties that it names, and its decision.

The text of the properties is the end of a record, after body and topic:

    | head of 88, 100 or 112 bytes, body length at its end | body | size u8, topic | size i16 | name 1 value 2 name ...

Of each text only the values of the named properties are found, where they stand. A decision is TRUE, FALSE or NULL; or
UNDECIDED where a value is not of the form that is read here (a number with a sign, for example): then the general path
decides, which is the definition. So it is for a record whose lengths do not add up.

What has been compiled keeps the positions of values of the record that it looks at, and nothing else.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, read_i64_le
from mypy_extensions import i64

FALSE: Final = 0
TRUE: Final = 1
UNDECIDED: Final = 2
NULL: Final = 3

# Constants beyond 62 bits are objects in compiled code, and converted wherever they are used.
_ONES: Final = 0x01010101_01010101
_THREES: Final = 0x03030303_03030303
_NUMBERS: Final = 0x00010203_04050607
"""Multiplied by 1 << 8 * k it has k in its highest byte."""

_SIZE_MAX: Final = 62  # longer names share a bit
_UNIT_SIZE: Final = 20
_DIGITS_MAX: Final = 9  # a number of so many digits fits any class
LESS: Final = 0
AT_MOST: Final = 1
EQUAL: Final = 2
AT_LEAST: Final = 3
MORE: Final = 4


class Property:
    """A named property of the record that is looked at."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.size = i64(len(name))
        self.first: i64 = read_i64_le(name + bytes(8), 0)
        """The first eight bytes of the name, zeros after a shorter one."""
        self.first_mask: i64 = i64(-1) if len(name) >= 8 else i64((1 << 8 * len(name)) - 1)
        self.begin: i64 = 0
        self.end: i64 = 0
        """After its value; 0 if the record does not have it."""


class Decision:
    """A boolean part of a selector."""

    def decide(self, content: bytes) -> i64:
        """Return the decision for the record whose values have been found."""
        return UNDECIDED


class Fixed(Decision):
    """A constant."""

    def __init__(self, value: int) -> None:
        self.value = i64(value)

    def decide(self, content: bytes) -> i64:
        return self.value


class IsAbsent(Decision):
    """IS NULL."""

    def __init__(self, operand: Property) -> None:
        self.operand = operand

    def decide(self, content: bytes) -> i64:
        return TRUE if self.operand.end == 0 else FALSE


class AsBoolean(Decision):
    """A property as a boolean: a text is none, so it is FALSE."""

    def __init__(self, operand: Property) -> None:
        self.operand = operand

    def decide(self, content: bytes) -> i64:
        return NULL if self.operand.end == 0 else FALSE


class IsAmong(Decision):
    """Equal to one of some ASCII texts."""

    def __init__(self, operand: Property, texts: list[bytes]) -> None:
        self.operand = operand
        self.texts = texts

    def decide(self, content: bytes) -> i64:
        operand = self.operand
        if operand.end == 0:
            return NULL
        for text in self.texts:
            if operand.end - operand.begin == i64(len(text)) and stands_at(content, operand.begin, text):
                return TRUE
        return FALSE


class Compared(Decision):
    """A property against a whole number."""

    def __init__(self, operand: Property, order: int, number: int) -> None:
        self.operand = operand
        self.order = i64(order)
        self.number = i64(number)

    def decide(self, content: bytes) -> i64:
        at, end = self.operand.begin, self.operand.end
        if end == 0:
            return NULL
        if end - at > _DIGITS_MAX:
            return UNDECIDED
        value: i64 = 0
        while at < end:
            digit = i64(content[at]) - 48
            if digit < 0 or digit > 9:
                return UNDECIDED
            value = value * 10 + digit
            at += 1
        order, number = self.order, self.number
        if value == number:
            return TRUE if LESS < order < MORE else FALSE
        if value < number:
            return TRUE if order < EQUAL else FALSE
        return TRUE if order > EQUAL else FALSE


class Inverse(Decision):
    """NOT."""

    def __init__(self, operand: Decision) -> None:
        self.operand = operand

    def decide(self, content: bytes) -> i64:
        value = self.operand.decide(content)
        if value == TRUE:
            return FALSE
        return TRUE if value == FALSE else value


class AllOf(Decision):
    """AND."""

    def __init__(self, operands: list[Decision]) -> None:
        self.operands = operands

    def decide(self, content: bytes) -> i64:
        result: i64 = TRUE
        for operand in self.operands:
            value = operand.decide(content)
            if value == NULL:
                result = NULL
            elif value != TRUE:
                return value
        return result


class AnyOf(Decision):
    """OR."""

    def __init__(self, operands: list[Decision]) -> None:
        self.operands = operands

    def decide(self, content: bytes) -> i64:
        result: i64 = FALSE
        for operand in self.operands:
            value = operand.decide(content)
            if value == NULL:
                result = NULL
            elif value != FALSE:
                return value
        return result


class Selector:
    """A compiled selector: the properties that it names, and its root."""

    def __init__(self, properties: list[Property], root: Decision) -> None:
        self.properties = properties
        self.root = root
        sizes = 0
        for each in properties:
            sizes |= 1 << min(len(each.name), _SIZE_MAX)
        self.sizes = i64(sizes)
        """A bit for each size of a name."""

    def judge(self, units: bytes, content: bytes, begin: int) -> bytes:
        """Return a byte for each record that units name: TRUE if it is wanted, UNDECIDED, or FALSE.

        ``content`` is the log from the offset ``begin`` on; the units have been compared with it.
        """
        verdicts = BytesWriter()
        first = i64(begin)
        end = i64(len(units))
        at: i64 = 0
        while at + _UNIT_SIZE <= end:
            position = read_i64_be(units, at) - first
            verdicts.append(self.verdict(content, position, position + i64(read_i32_be(units, at + 8))))
            at += _UNIT_SIZE
        return verdicts.getvalue()

    def verdict(self, content: bytes, begin: i64, end: i64) -> int:
        """Return the verdict on the record at a position."""
        if begin < 0 or end > i64(len(content)) or end < 91 or begin > end - 91:
            return UNDECIDED
        flags = i64(read_i32_be(content, begin + 36)) >> 4 & 3  # which of the two addresses are of 16 bytes
        head_size: i64 = 88 + 12 * (flags & 1) + 12 * (flags >> 1)
        if end - begin < head_size + 3:
            return UNDECIDED
        body_size = i64(read_i32_be(content, begin + head_size - 4))
        if body_size < 0 or body_size > end - begin - head_size - 3:
            return UNDECIDED
        topic_at = begin + head_size + body_size
        text_at = topic_at + i64(content[topic_at]) + 3
        if text_at > end:
            return UNDECIDED
        self.find(content, text_at, end)
        value = self.root.decide(content)
        return FALSE if value == NULL else value

    def find(self, content: bytes, at: i64, end: i64) -> None:
        """Find the values of the named properties in a text; of a repeated name the last one counts.

        A name begins at the begin of the text or after a separator of entries, and ends at the first separator of
        either kind. Its value, which may have the separator of names, ends at the next separator of entries. At least
        eight bytes stand before the end of the text: those of the record's head.
        """
        for each in self.properties:
            each.end = 0
        name_at = at
        value_at: i64 = 0  # 0 within a name
        while at < end:
            # Eight bytes from here on. Near the end of the text those before it, moved: what stands in the bytes after
            # its end then is the sign of the word, which may look like a separator there.
            left = end - at
            if left >= 8:
                word = read_i64_le(content, at)
            else:
                word = read_i64_le(content, end - 8) >> (64 - 8 * left)
            # A bit for each byte below 3, exact up to the first one; in those after it a borrow may have set more.
            low = ((word - _THREES) & ~word) >> 7 & _ONES
            if low == 0:
                at += 8
                continue
            at += (low & -low) * _NUMBERS >> 56 & 7
            if at >= end:
                break
            byte = i64(content[at])
            if byte == 2:
                if value_at != 0:
                    self.note(content, name_at, value_at, at)
                    value_at = 0
                name_at = at + 1
            elif byte == 1 and value_at == 0:
                value_at = at + 1
            at += 1
        if value_at != 0:
            self.note(content, name_at, value_at, end)

    def note(self, content: bytes, name_at: i64, value_at: i64, end: i64) -> None:
        """Note where a value stands if its property is named. Neither a name nor a value is empty."""
        # No conditional expressions of numbers here: their type would be int, which is an object beyond 62 bits.
        size = value_at - 1 - name_at
        size_bit = size
        if size_bit > _SIZE_MAX:
            size_bit = _SIZE_MAX
        if name_at < 0 or size <= 0 or end == value_at or self.sizes >> size_bit & 1 == 0:
            return
        word: i64 = 0
        has_word = name_at + 8 <= i64(len(content))
        if has_word:  # otherwise the record ends within these eight bytes, and all of them are compared
            word = read_i64_le(content, name_at)
        for each in self.properties:
            if size == each.size:
                if has_word and (word ^ each.first) & each.first_mask != 0:
                    continue
                if (has_word and size <= 8) or stands_at(content, name_at, each.name):
                    each.begin = value_at
                    each.end = end


def stands_at(content: bytes, at: i64, text: bytes) -> bool:
    """Return whether a text stands at a position, where as many bytes are."""
    size = i64(len(text))
    number: i64 = 0
    while size - number >= 8:
        if read_i64_be(content, at + number) != read_i64_be(text, number):
            return False
        number += 8
    while number < size:
        if content[at + number] != text[number]:
            return False
        number += 1
    return True

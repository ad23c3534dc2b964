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

from librt.strings import BytesWriter, read_i32_be, read_i64_be
from mypy_extensions import i64

FALSE: Final = 0
TRUE: Final = 1
UNDECIDED: Final = 2
NULL: Final = 3

_HIGH_BITS: Final = -0x7F7F7F7F_7F7F7F80  # 0x80 in each of eight bytes
_THREES: Final = 0x03030303_03030303
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
        if begin < 0 or end > i64(len(content)) or end - begin < 91:
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
        """Find the values of the named properties in a text; of a repeated name the last one counts."""
        for each in self.properties:
            each.end = 0
        while at < end:
            name_at = at
            at = separator_from(content, at, end)
            if at == end:
                return
            if content[at] == 1:
                value_at = at + 1
                at = value_at
                # A value may have the separator of names.
                while True:
                    at = separator_from(content, at, end)
                    if at == end or content[at] == 2:
                        break
                    at += 1
                name_size = value_at - 1 - name_at
                if name_size > 0 and at > value_at:
                    for each in self.properties:
                        if name_size == i64(len(each.name)) and stands_at(content, name_at, each.name):
                            each.begin = value_at
                            each.end = at
            at += 1


def separator_from(content: bytes, at: i64, end: i64) -> i64:
    """Return where the next of the two separators is, or the end."""
    while end - at >= 8:
        word = read_i64_be(content, at)
        if (word - _THREES) & ~word & _HIGH_BITS:  # one of eight bytes is below 3
            break
        at += 8
    while at < end:
        byte = i64(content[at])
        if byte == 1 or byte == 2:
            return at
        at += 1
    return end


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

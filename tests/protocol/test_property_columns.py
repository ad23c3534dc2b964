"""Tags codes and index keys of many texts at once: whatever the texts are, what decoding each of them gives."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.properties import decode_properties, index_keys_of
from rocketpy.protocol.property_columns import PropertyColumns, TagsCodes

NAMES = (b"UNIQ_KEY", b"KEYS", b"TAGS", b"XKEYS", b"TAGSX", b"keys", b"", b"other")
VALUES = (
    b"",
    b"a",
    b"b c",
    b" ",
    b"  d  e ",
    b"TAGS",
    b"x\x01y",
    "grün".encode(),
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"t" * 80,
)
entries = st.one_of(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)).map(b"\x01".join),
    st.sampled_from(NAMES),
    st.binary(max_size=6).map(lambda part: part.replace(b"\0", b"")),
)
ordinary = st.lists(entries, max_size=5).map(b"\x02".join)


def found(texts: Sequence[bytes]) -> tuple[list[int], list[tuple[bytes, ...]]]:
    columns = PropertyColumns(texts)
    return columns.tags_codes(), columns.index_keys()


def decoded(texts: Sequence[bytes]) -> tuple[list[int], list[tuple[bytes, ...]]]:
    """Return the same by the general parser."""
    properties = [decode_properties(text.decode("utf-8", "replace")) for text in texts]
    return [tags_code(each.get("TAGS")) for each in properties], list(map(index_keys_of, properties))


@given(texts=st.lists(ordinary, min_size=1, max_size=6))
@example(texts=[b"TAGS\x01a\x02TAGS\x01b", b"WAIT\x01true"])
@example(texts=[b"UNIQ_KEY\x01a\x02UNIQ_KEY\x01", b"UNIQ_KEY\x01b"])
@example(texts=[b"KEYS\x01" + b" ".join(b"%d" % number for number in range(300)), b"UNIQ_KEY\x01u"])
@example(texts=[b"UNIQ_KEY\x01u\x02", b"\x02TAGS\x01a", b""])
def test_columns_are_what_decoding_gives(texts: list[bytes]) -> None:
    assert found(texts) == decoded(texts)


def test_texts_of_different_producers_are_taken_together() -> None:
    texts = [
        b"UNIQ_KEY\x01u1\x02TAGS\x01red",
        b"KEYS\x01k1 k2\x02UNIQ_KEY\x01u2",
        b"KEYS\x01k3",
        b"WAIT\x01true",
        b"",
    ]
    codes, keys = found(texts)
    assert codes == [tags_code("red"), 0, 0, 0, 0]
    assert keys == [(b"u1",), (b"u2", b"k1", b"k2"), (b"k3",), (), ()]


def test_codes_of_many_or_long_tags_do_not_fill_the_memory() -> None:
    """A peer chooses the tags."""
    codes = TagsCodes()
    for tags in (*(str(number) for number in range(5000)), "t" * 1000):
        assert codes[tags.encode()] == tags_code(tags)
    assert 0 < len(codes) <= 4096
    assert max(map(len, codes)) <= 64

"""The numbers are what peers switch on: they are compared with those a Java 4.9.7 declares."""

from __future__ import annotations

from rocketpy.protocol.codes import (
    MQ_VERSION,
    PERM_INHERIT,
    PERM_READ,
    PERM_READ_WRITE,
    PERM_WRITE,
    LanguageCode,
    RequestCode,
    ResponseCode,
    SerializeType,
)
from tests.recorded import VECTORS

# 4.9.8 took this request away (it answered with every secret key); 4.9.7, where the vectors come from, still has it.
ONLY_IN_4_9_7 = {"GET_BROKER_CLUSTER_ACL_CONFIG": 54}


def test_request_codes_are_those_of_java() -> None:
    ours = {code.name: code.value for code in RequestCode}
    assert ours | ONLY_IN_4_9_7 == VECTORS["request_codes"]
    assert not ours.keys() & ONLY_IN_4_9_7.keys()


def test_response_codes_are_those_of_java() -> None:
    # Those of the remoting layer (0 to 4) are declared in a class of their own there.
    remoting = {
        "SUCCESS": 0,
        "SYSTEM_ERROR": 1,
        "SYSTEM_BUSY": 2,
        "REQUEST_CODE_NOT_SUPPORTED": 3,
        "TRANSACTION_FAILED": 4,
    }
    assert {code.name: code.value for code in ResponseCode} == VECTORS["response_codes"] | remoting


def test_no_number_stands_twice() -> None:
    """A second name for a number would silently become an alias."""
    for codes in (RequestCode, ResponseCode, LanguageCode, SerializeType):
        assert len(codes.__members__) == len(set(codes))


def test_our_version_is_two_releases_of_numbers_above_the_recorded_one() -> None:
    assert VECTORS["version"] == {"ordinal": MQ_VERSION - 2, "name": "V4_9_7"}


def test_languages_and_serialize_types_have_their_bytes() -> None:
    names = "JAVA CPP DOTNET PYTHON DELPHI ERLANG RUBY OTHER HTTP GO PHP OMS RUST"
    assert " ".join(language.name for language in LanguageCode) == names
    assert [language.value for language in LanguageCode] == list(range(13))
    assert [(kind.name, kind.value) for kind in SerializeType] == [("JSON", 0), ("ROCKETMQ", 1)]


def test_permission_bits_are_rocketmqs() -> None:
    """Operators type these numbers, and topic files hold them."""
    assert (PERM_READ, PERM_WRITE, PERM_INHERIT) == (4, 2, 1)
    assert PERM_READ_WRITE == 6

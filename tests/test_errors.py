"""Texts of the exceptions, and their hierarchy: catching a base class catches exactly its kind."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable

import pytest

from rocketpy import errors
from rocketpy.errors import (
    BrokerError,
    BrokersError,
    ClientError,
    ClientErrorCode,
    DamagedStoreError,
    DescriptorShortageError,
    DiskFullError,
    NoBrokerError,
    NoNameServerError,
    NoReplyError,
    NoRouteError,
    NotReadyError,
    RequestError,
    RocketpyError,
    StartError,
    StoreError,
    single_failures,
)

ALL = [
    each
    for _, each in inspect.getmembers(errors, inspect.isclass)
    if each.__module__ == errors.__name__ and each is not ClientErrorCode
]


def test_everything_raised_on_purpose_has_one_root() -> None:
    assert len(ALL) > 10
    assert all(issubclass(each, RocketpyError) for each in ALL)
    assert not issubclass(RocketpyError, (OSError, ValueError))


def test_a_refused_request_reads_as_java_s_clients_print_it() -> None:
    refusal = RequestError(16, "topic[T] not exist")
    assert str(refusal) == "CODE: 16  DESC: topic[T] not exist"
    assert (refusal.response_code, refusal.remark) == (16, "topic[T] not exist")


@pytest.mark.parametrize(
    ("remark", "text"), [("no", "CODE: 1  DESC: no BROKER: a:1"), (None, "CODE: 1  DESC:  BROKER: a:1")]
)
def test_an_answer_of_a_broker_says_which(remark: str | None, text: str) -> None:
    error = BrokerError(1, remark, "a:1")
    assert str(error) == text
    assert (error.response_code, error.remark, error.address) == (1, remark, "a:1")


def test_a_failed_call_of_a_client_has_java_s_code() -> None:
    assert str(ClientError(17, "No route info of this topic: T")) == "CODE: 17  DESC: No route info of this topic: T"
    assert ClientError(17, "").response_code == 17


@pytest.mark.parametrize(("position", "where"), [(None, "(/f)"), (0, "(/f at 0)"), (7, "(/f at 7)")])
def test_an_error_of_the_store_says_where(position: int | None, where: str) -> None:
    error = StoreError("cannot read", path="/f", position=position)
    assert str(error) == f"cannot read {where}"
    assert (error.path, error.position) == ("/f", position)


def test_a_full_disk_says_what_was_wanted_and_what_is_there() -> None:
    error = DiskFullError(path="/f", wanted_bytes=10, free_bytes=3)
    assert str(error) == "no space: 10 bytes wanted, 3 bytes free (/f)"
    assert (error.wanted_bytes, error.free_bytes, error.path, error.position) == (10, 3, "/f", None)


def test_a_shortage_of_descriptors_says_what_could_not_be_done() -> None:
    error = DescriptorShortageError("cannot open", path="/f", reason="Too many open files")
    assert str(error) == "cannot open: no file descriptor is left (Too many open files) (/f)"


def test_damage_says_which_command_shows_more() -> None:
    error = DamagedStoreError("expected a record, found zeros", path="/f", position=8)
    assert str(error) == "expected a record, found zeros; `rocketpy store verify` shows what is left (/f at 8)"


ARGUMENTS: dict[type[RocketpyError], tuple[object, ...]] = {
    RequestError: (1, "why"),
    ClientError: (17, "why"),
    BrokerError: (1, "why", "a:1"),
    NotReadyError: (["topic T: no route"], 1.0),
    BrokersError: ({"a:1": ClientError(17, "why")}, {"b:1": 2}),
}
SAME = [
    "args",
    "response_code",
    "remark",
    "address",
    "path",
    "position",
    "wanted_bytes",
    "free_bytes",
    "missing",
    "__notes__",
]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("remade", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy], ids=["pickle", "copy"])
def test_errors_go_through_processes_unchanged(
    kind: type[RocketpyError], remade: Callable[[RocketpyError], RocketpyError]
) -> None:
    """A Spark executor's exception reaches the driver pickled, and sends that failed for one reason have one each."""
    if kind is DiskFullError:
        error: RocketpyError = DiskFullError(path="/f", wanted_bytes=10, free_bytes=3)
    elif issubclass(kind, StoreError):
        error = kind("why", path="/f")
    else:
        error = kind(*ARGUMENTS.get(kind, ("why",)))
    again = remade(error)
    assert (type(again), str(again)) == (kind, str(error))
    assert [getattr(again, name, None) for name in SAME] == [getattr(error, name, None) for name in SAME]


@pytest.mark.parametrize(
    ("kind", "code"),
    [(NoBrokerError, 10003), (NoNameServerError, 10004), (NoRouteError, 10005), (NoReplyError, 10006)],
)
def test_what_programs_tell_apart_has_a_class_with_java_s_code(kind: Callable[[str], ClientError], code: int) -> None:
    error = kind("why")
    assert isinstance(error, ClientError)
    assert (error.response_code, str(error)) == (code, f"CODE: {code}  DESC: why")


def test_what_several_tasks_raised_is_found_in_order_however_deep() -> None:
    first, second, third = StartError("1"), KeyboardInterrupt(), StoreError("3", path="/f")
    group = BaseExceptionGroup("", [BaseExceptionGroup("", [first, BaseExceptionGroup("", [second])]), third])
    assert list(single_failures(group)) == [first, second, third]
    assert list(single_failures(first)) == [first]


def test_of_a_very_long_remark_the_message_has_the_beginning() -> None:
    error = BrokerError(1, "r" * 10_000_000, "a:1")
    assert len(str(error)) < 9_000
    assert str(error).endswith("BROKER: a:1")
    assert len(error.remark or "") == 10_000_000

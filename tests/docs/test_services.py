"""The services of ``docs/examples/services``: each is killed in the middle, or its broker is, and loses nothing."""

from __future__ import annotations

import ast
import json
import re
import runpy
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rocketpy import client, errors
from rocketpy.client import Message, blocking
from rocketpy.client.validators import SETTABLE_PROPERTIES
from rocketpy.protocol.properties import RESERVED_PROPERTIES
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.blackbox.processes import REPOSITORY, Process
from tests.docs.service_programs import SERVICES, Services, assert_killed, assert_stops, services_in, wait_for

PAGE = (SERVICES.parents[1] / "client.md").read_text()
TESTS = Path(__file__).read_text() + (REPOSITORY / "tests" / "spark" / "test_stream_service.py").read_text()
PUBLIC = {f"rocketpy.client.{name}" for name in (*client.__all__, "aio", "blocking")}
PUBLIC |= {f"rocketpy.errors.{name}" for name in vars(errors)}


@pytest.mark.parametrize("path", sorted(SERVICES.iterdir()), ids=lambda path: path.stem)
def test_a_service_is_short_has_public_names_only_is_tested_and_is_on_the_page(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 80
    assert f"python {path.name} 127.0.0.1:9876" in text
    imports = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.ImportFrom)]
    used = {f"{each.module}.{name.name}" for each in imports for name in each.names}
    assert {name for name in used if name.startswith("rocketpy")} <= PUBLIC
    assert path.stem in TESTS
    assert f"(examples/services/{path.name})" in PAGE


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    with services_in(tmp_path) as services:
        yield services


def url_of(service: Process) -> str:
    """Wait until a web server says on which port it listens."""
    port = re.compile(r"(?:listening on port |http://127\.0\.0\.1:)(\d+)")
    wait_for(service, lambda: port.search(service.log()))
    return f"http://127.0.0.1:{port.findall(service.log())[-1]}"


def answer_of(method: str, url: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Return the status of an answer and its body, 0 if there is no answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, method=method)) as answer:
            return int(answer.status), answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, b""
    except (urllib.error.URLError, ConnectionError):
        return 0, b""


def status_of(method: str, url: str, body: bytes | None = None) -> int:
    return answer_of(method, url, body)[0]


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


def keys(broker: BrokerInThread, topic: str) -> list[str]:
    return [message.keys or "" for message in broker.messages(topic)]


def send(broker: BrokerInThread, *messages: Message) -> None:
    with blocking.open_producer(broker.name_server) as producer:
        for message in messages:
            producer.send(message)


def test_an_order_that_is_stored_is_announced_though_its_service_dies(
    rocketmq: BrokerInThread, services: Services, tmp_path: Path
) -> None:
    rocketmq.topic("orders")
    start = ["order_service", rocketmq.name_server, "orders.db", "0"]
    service = services.start(*start, dies_at="Transaction.commit 2")
    url = f"{url_of(service)}/orders"
    assert [status_of("POST", f"{url}/{number}", b"tea") for number in (1, 1, 2)] == [201, 200, 0]
    assert_killed(service)
    assert rows(tmp_path / "orders.db", "SELECT number FROM orders") == [("1",), ("2",)]
    service = services.start(*start)
    url = f"{url_of(service)}/orders"
    assert [status_of("POST", f"{url}/{number}", b"tea") for number in (2, 3)] == [200, 201]
    rocketmq.advance(120)
    wait_for(service, lambda: sorted(keys(rocketmq, "orders")) == ["1", "2", "3"])
    assert "asks about order 2: stored" in service.log()
    assert_stops(service)


def test_an_order_that_is_not_stored_is_not_announced(rocketmq: BrokerInThread, services: Services) -> None:
    rocketmq.topic("orders")
    start = ["order_service", rocketmq.name_server, "orders.db", "0"]
    service = services.start(*start, dies_at="Transaction.transaction_id 1")
    assert status_of("POST", f"{url_of(service)}/orders/1", b"tea") == 0
    assert_killed(service)
    service = services.start(*start)
    assert status_of("POST", f"{url_of(service)}/orders/2", b"tea") == 201
    rocketmq.advance(120)
    wait_for(service, lambda: "asks about order 1: not stored" in service.log())
    wait_for(service, lambda: keys(rocketmq, "orders") == ["2"])
    assert_stops(service)


def payment(number: int, cents: object = 1) -> Message:
    return Message.create("payments", json.dumps({"account": "a", "cents": cents}).encode(), keys=f"p{number}")


def test_a_payment_is_booked_once_though_it_is_sent_twice_and_the_worker_and_the_broker_die(
    rocketmq: BrokerInThread, services: Services, tmp_path: Path
) -> None:
    rocketmq.topic("payments")
    send(rocketmq, *map(payment, [0, 1, 2, 2, 3]))
    start = ["idempotent_worker", rocketmq.name_server, "balances.db"]
    assert_killed(services.start(*start, dies_at="MessageBatch.done_nowait 3"))
    rocketmq.crash()
    worker = services.start(*start)
    rocketmq.restart()
    send(rocketmq, payment(4))
    booked = "SELECT cents, (SELECT count(*) FROM booked) FROM balances"
    wait_for(worker, lambda: rows(tmp_path / "balances.db", booked) == [(5, 5)])
    wait_for(worker, lambda: len(re.findall("payment p.: booked before", worker.log())) >= 1)
    assert_stops(worker)


def test_dead_letters_are_repaired_and_booked_once_though_the_job_dies(
    rocketmq: BrokerInThread, services: Services, tmp_path: Path
) -> None:
    rocketmq.topic("payments")
    worker = services.start("idempotent_worker", rocketmq.name_server, "balances.db")
    job = ["repair_dead_letters", rocketmq.name_server, "balances"]
    nothing = services.start(*job)
    assert (nothing.wait(), "has no dead letters" in nothing.log()) == (0, True), nothing.log()
    rocketmq.crash()
    failing = services.start(*job)
    assert (failing.wait(), failing.log()) == (1, "no broker is there: the next run may find one\n")
    rocketmq.restart()
    send(rocketmq, payment(0), *(payment(number, f"1,{number}0") for number in range(1, 5)))
    wait_for(worker, lambda: len(keys(rocketmq, "%DLQ%balances")) == 4)
    send(rocketmq, payment(5, "much"))  # the last letter of the one queue
    wait_for(worker, lambda: len(keys(rocketmq, "%DLQ%balances")) == 5)
    assert_killed(services.start(*job, dies_at="PullConsumer.commit 3"))
    repairing = services.start(*job)
    assert (repairing.wait(), "1 left" in repairing.log()) == (0, True), repairing.log()
    booked = "SELECT cents, (SELECT count(*) FROM booked) FROM balances"
    wait_for(worker, lambda: rows(tmp_path / "balances.db", booked) == [(1 + 110 + 120 + 130 + 140, 5)])
    assert len(keys(rocketmq, "payments")) <= 6 + 4 + 1
    assert_stops(worker)


def test_prices_are_there_again_after_the_broker_or_the_application_died(
    rocketmq: BrokerInThread, services: Services
) -> None:
    pytest.importorskip("fastapi", reason="FastAPI is not installed (the extra: dev)")
    rocketmq.topic("prices")
    application = services.start("price_board", rocketmq.name_server, "0")
    url = f"{url_of(application)}/prices"
    assert {status_of("PUT", f"{url}/tea?cents={cents}") for cents in range(20)} == {204}
    wait_for(application, lambda: answer_of("GET", f"{url}/tea") == (200, b"19"))
    assert len({message.queue_id for message in rocketmq.messages("prices")}) == 1, "so they are read in their order"
    rocketmq.crash()
    assert status_of("PUT", f"{url}/tea?cents=160") == 503
    assert [status_of("GET", f"{url}/{item}") for item in ("tea", "cake")] == [200, 404]
    rocketmq.restart()
    wait_for(application, lambda: status_of("PUT", f"{url}/cake?cents=320") == 204)
    wait_for(application, lambda: answer_of("GET", f"{url}/cake") == (200, b"320"))
    application.kill()
    application = services.start("price_board", rocketmq.name_server, "0")
    url = f"{url_of(application)}/prices"
    wait_for(application, lambda: [answer_of("GET", f"{url}/{item}")[1] for item in ("tea", "cake")] == [b"19", b"320"])
    assert status_of("GET", f"{url_of(application)}/health") == 200
    assert_stops(application)


def test_a_request_is_answered_though_the_service_dies_meanwhile(rocketmq: BrokerInThread, services: Services) -> None:
    rocketmq.topic("quotes")
    asking = services.start("quotes", rocketmq.name_server, "ask", "milk")
    wait_for(asking, lambda: rocketmq.messages("quotes"))
    asking.kill()
    service = services.start("quotes", rocketmq.name_server, "serve", dies_at="Producer.send 2")
    wait_for(service, lambda: ": not answered: " in service.log())
    asking = services.start("quotes", rocketmq.name_server, "ask", "tea")
    assert_killed(service)
    service = services.start("quotes", rocketmq.name_server, "serve")
    assert (asking.wait(), asking.log()) == (0, "150\n")
    asking = services.start("quotes", rocketmq.name_server, "ask", "cake")
    assert (asking.wait(), asking.log()) == (0, "320\n")
    assert service.log().count(": answered") == 2
    assert_stops(service)


def test_a_reminder_is_shown_once_and_not_early_though_the_service_and_the_broker_die(
    rocketmq: BrokerInThread, services: Services
) -> None:
    rocketmq.topic("reminders")
    due_s = time.time() + 7300
    reminder = Message.create("reminders", b"the tea", keys="r1", properties={"due_s": str(due_s)})
    send(rocketmq, reminder, reminder)
    start = ["reminders", rocketmq.name_server, "reminders.db"]
    service = services.start(*start, dies_at="Producer.send 3")
    wait_for(service, lambda: service.log().count("sent with level 18") == 2)
    rocketmq.advance(7200)
    assert_killed(service)
    rocketmq.crash()
    rocketmq.restart()
    service = services.start(*start)
    advanced_s = [7200]

    def has_come(text: str) -> bool:
        rocketmq.advance(5)
        advanced_s.append(5)
        return text in service.log()

    wait_for(service, lambda: has_come("the tea"))
    assert time.time() + sum(advanced_s) >= due_s
    wait_for(service, lambda: has_come("shown before"))
    assert service.log().count("the tea") == 1
    assert_stops(service)


def test_a_topic_is_copied_once_and_in_order_though_the_program_and_the_broker_die(
    rocketmq: BrokerInThread, services: Services
) -> None:
    for topic in ("orders", "copies"):
        rocketmq.topic(topic, queues=2)
    send(rocketmq, *(Message.create("orders", b"%d" % number, tags="t", properties={"n": "1"}) for number in range(20)))
    start = ["copy_topic", rocketmq.name_server, "orders", rocketmq.name_server, "copies"]
    assert_killed(services.start(*start, dies_at="Producer.send 9"))
    program = services.start(*start)
    wait_for(program, lambda: len(keys(rocketmq, "copies")) > 10)
    rocketmq.crash()
    rocketmq.restart()
    send(rocketmq, *(Message("orders", b"%d" % number) for number in range(20, 30)))
    wait_for(program, lambda: len(keys(rocketmq, "copies")) >= 30)
    originals, copies = (
        {(m.queue_id, m.queue_offset): (m.body, m.tags, m.msg_id, m.properties.get("n")) for m in rocketmq.messages(t)}
        for t in ("orders", "copies")
    )
    assert copies == originals
    assert_stops(program)


def test_a_copied_message_has_no_property_that_a_send_refuses() -> None:
    not_copied = runpy.run_path(str(SERVICES / "copy_topic.py"))["NOT_COPIED"]
    assert not_copied >= RESERVED_PROPERTIES - SETTABLE_PROPERTIES

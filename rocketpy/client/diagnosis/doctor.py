"""Diagnoses a cluster: asks nameservers, brokers and consumers how they are, and judges what they say.

Every advertised address is dialled from here, as a client would. What cannot be asked is a finding, not an error; only
reading requests are sent. The diagnosis takes some seconds: the progress of groups is looked at twice.

Works against rocketpy and Java clusters; ``mqadmin`` has no such command.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import attrs
import trio

from rocketpy.client.admin.admin_client import AdminClient
from rocketpy.client.diagnosis.brokers import BrokerFacts, judge_brokers
from rocketpy.client.diagnosis.finding import Finding, Severity, note, problem
from rocketpy.client.diagnosis.groups import GroupFacts, Subscriptions, judge_group
from rocketpy.client.name_servers import is_refusal_of_a_broker
from rocketpy.clock import Clock
from rocketpy.errors import BrokerError, ClientError, RocketpyError
from rocketpy.protocol.bodies.connection import ConsumerConnection
from rocketpy.protocol.bodies.route import ClusterInfo
from rocketpy.protocol.bodies.stats import ConsumeStats
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.topic_name import RETRY_PREFIX

WATCH_SECONDS = 3.0
"""How long the progress of groups is watched."""
MEMBERS_ASKED = 16
"""Of a group, so many members are asked for their subscriptions."""
_AT_ONCE_MAX = 16

T = TypeVar("T")
R = TypeVar("R")


@attrs.frozen
class Diagnosis:
    """The findings, problems first, and how much was looked at."""

    findings: tuple[Finding, ...]
    broker_count: int
    group_count: int

    @property
    def problem_count(self) -> int:
        """Findings that need an operator."""
        return sum(each.severity is Severity.PROBLEM for each in self.findings)


class Doctor:
    """Diagnoses the cluster of an admin client."""

    def __init__(self, admin: AdminClient, *, clock: Clock, watch_seconds: float = WATCH_SECONDS) -> None:
        self._admin = admin
        self._clock = clock
        self._watch_seconds = watch_seconds

    async def diagnose(self) -> Diagnosis:
        """Look at everything; bounded by the timeouts of the admin client."""
        infos, findings = await self._name_servers()
        if not infos:
            return Diagnosis(tuple(findings), 0, 0)
        brokers = await self._brokers(infos)
        if not brokers:
            findings.append(
                problem(
                    "no-broker",
                    ", ".join(infos),
                    "no broker is registered",
                    "Start one with namesrvAddr set to this nameserver, and look into its log if it runs",
                )
            )
        findings += judge_brokers(brokers)
        groups, failures = await self._groups()
        findings += failures
        findings += [finding for group in groups for finding in judge_group(group)]
        findings.sort(key=lambda each: each.severity is not Severity.PROBLEM)
        return Diagnosis(tuple(findings), len(brokers), len(groups))

    # ---- nameservers ----------------------------------------------------------------------------------------------

    async def _name_servers(self) -> tuple[dict[str, ClusterInfo], list[Finding]]:
        """Ask every nameserver for its brokers; they must know the same."""
        infos, failures = await self._admin.name_servers.clusters_by_address()
        findings = [_unreachable(address, failure) for address, failure in failures.items()]
        known = {address: _addresses(info) for address, info in infos.items()}
        everywhere = set.union(*known.values()) if known else set()
        findings += [
            problem(
                "nameservers-differ",
                f"nameserver {address}",
                f"it does not know {', '.join(sorted(everywhere - addresses))}, which another one knows",
                "Give all brokers the same namesrvAddr, with all nameservers in it",
            )
            for address, addresses in known.items()
            if everywhere - addresses
        ]
        return infos, findings

    # ---- brokers --------------------------------------------------------------------------------------------------

    async def _brokers(self, infos: dict[str, ClusterInfo]) -> list[BrokerFacts]:
        known = {
            (broker.broker_name, broker_id, address)
            for info in infos.values()
            for broker in info.broker_addr_table.values()
            for broker_id, address in broker.broker_addrs.items()
        }
        return await _each(sorted(known), lambda each: self._broker(*each))

    async def _broker(self, name: str, broker_id: int, address: str) -> BrokerFacts:
        facts = BrokerFacts(name=name, broker_id=broker_id, address=address)
        try:
            figures = await self._admin.brokers.runtime_info(address)
            facts = attrs.evolve(facts, figures=figures, asked_timestamp_ms=self._clock.timestamp_ms())
            return attrs.evolve(facts, settings=await self._admin.brokers.config(address))
        except RocketpyError as failure:
            return attrs.evolve(facts, failure=failure)

    # ---- groups ---------------------------------------------------------------------------------------------------

    async def _groups(self) -> tuple[list[GroupFacts], list[Finding]]:
        try:
            topics = await self._admin.topics.names()
        except RocketpyError as failure:
            return [], [note("groups-unknown", "groups", f"they cannot be listed: {failure}", "Ask again")]
        names = [topic.removeprefix(RETRY_PREFIX) for topic in topics if topic.startswith(RETRY_PREFIX)]
        before = dict(zip(names, await _each(names, self._progress), strict=True))
        if any(each is not None and each.offset_table for each in before.values()):
            await trio.sleep(self._watch_seconds)
        groups = await _each(names, lambda name: self._group(name, before[name]))
        findings = [
            note("group-unknown", f"group {name}", "its progress cannot be had from all of its brokers", "Ask again")
            for name in names
            if before[name] is None
        ]
        return groups, findings

    async def _progress(self, group: str) -> ConsumeStats | None:
        """Return the progress of a group; None when a broker does not say."""
        try:
            return await self._admin.offsets.progress(group)
        except (ClientError, BrokerError) as failure:
            is_nothing = failure.response_code == ResponseCode.CONSUMER_NOT_ONLINE
            return ConsumeStats() if is_nothing else None
        except RocketpyError:
            return None

    async def _group(self, group: str, before: ConsumeStats | None) -> GroupFacts:
        facts = GroupFacts(group=group, before=before or ConsumeStats())
        try:
            connection = await self._admin.clients.consumers(group)
        except (ClientError, BrokerError) as failure:
            is_offline = failure.response_code == ResponseCode.CONSUMER_NOT_ONLINE
            facts = attrs.evolve(facts, client_ids=() if is_offline else None)
        except RocketpyError:
            facts = attrs.evolve(facts, client_ids=None)
        else:
            facts = attrs.evolve(
                facts,
                client_ids=tuple(each.client_id for each in connection.connection_set),
                message_model=connection.message_model,
                subscriptions=await self._subscriptions(group, connection),
            )
        after = await self._progress(group) or ConsumeStats()
        return attrs.evolve(facts, after=after, asked_timestamp_ms=self._clock.timestamp_ms())

    async def _subscriptions(self, group: str, connection: ConsumerConnection) -> dict[str, Subscriptions]:
        """Return what the members subscribe to; a member that cannot say is left out."""

        async def ask(client_id: str) -> Subscriptions | None:
            try:
                info = await self._admin.clients.running_info(group, client_id)
            except RocketpyError:
                return None
            return frozenset((each.topic, each.sub_string) for each in info.subscription_set)

        client_ids = sorted({each.client_id for each in connection.connection_set})[:MEMBERS_ASKED]
        if len(client_ids) < 2:
            return {}  # a single one agrees with itself
        answers = await _each(client_ids, ask)
        return {client_id: answer for client_id, answer in zip(client_ids, answers, strict=True) if answer is not None}


def _addresses(info: ClusterInfo) -> set[str]:
    return {address for broker in info.broker_addr_table.values() for address in broker.broker_addrs.values()}


async def _each(items: Iterable[T], ask: Callable[[T], Awaitable[R]]) -> list[R]:
    """Ask about items concurrently, a few at a time; return the answers in order. ``ask`` must not raise."""
    todo = list(items)
    answers: dict[int, R] = {}
    limiter = trio.CapacityLimiter(_AT_ONCE_MAX)

    async def ask_one(index: int) -> None:
        async with limiter:
            answers[index] = await ask(todo[index])

    async with trio.open_nursery() as nursery:
        for index in range(len(todo)):
            nursery.start_soon(ask_one, index)
    return [answers[index] for index in range(len(todo))]


def _unreachable(address: str, failure: RocketpyError) -> Finding:
    what, advice = f"it does not answer: {failure}", "Start it, or correct the list of nameservers"
    if isinstance(failure, BrokerError) and is_refusal_of_a_broker(failure, RequestCode.GET_BROKER_CLUSTER_INFO):
        what, advice = f"this is a broker: {failure}", "Name the nameserver, which listens on port 9876 by default"
    return problem("nameserver-unreachable", f"nameserver {address}", what, advice)

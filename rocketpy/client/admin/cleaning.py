"""Deletions that brokers otherwise make on their own in time: of queues, of the log, of what deleted topics leave.

Each call goes to one broker, or to all of a cluster, slaves too, or of all clusters.

Compatibility: the calls of ``DefaultMQAdminExtImpl`` that clean (4.9.8). Java returns the outcome at the last broker;
here the addresses, and an error names the brokers that failed.
"""

from __future__ import annotations

from rocketpy.client.admin.requests import AdminRequests, cluster_addresses
from rocketpy.protocol.codes import RequestCode


class CleaningAdmin:
    """Cleaning of brokers. Obtained as :attr:`AdminClient.cleaning`."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def clean_expired_consume_queues(
        self, cluster: str | None = None, *, address: str | None = None
    ) -> list[str]:
        """Delete the ConsumeQueues of topics whose messages are gone from the log; return the brokers asked."""
        return await self._clean(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, cluster, address)

    async def delete_expired_commit_logs(self, cluster: str | None = None, *, address: str | None = None) -> list[str]:
        """Delete the CommitLog files whose time is over, at any hour; return the brokers asked."""
        return await self._clean(RequestCode.DELETE_EXPIRED_COMMITLOG, cluster, address)

    async def clean_unused_topics(self, cluster: str | None = None, *, address: str | None = None) -> list[str]:
        """Delete the ConsumeQueues of topics that a broker does not have any more; return the brokers asked."""
        return await self._clean(RequestCode.CLEAN_UNUSED_TOPIC, cluster, address)

    async def _clean(self, code: RequestCode, cluster: str | None, address: str | None) -> list[str]:
        addresses = (
            [address] if address is not None else cluster_addresses(await self._requests.cluster_info(), cluster)
        )
        await self._requests.each(addresses, lambda each: self._requests.ask_broker(each, code))
        return addresses

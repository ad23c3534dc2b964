"""Nameservers: their key-value configuration, their settings, and the write permission of brokers.

Nameservers know nothing of each other. What changes one is sent to all of a client's, what reads one to the one in use.

Compatibility: the calls of ``DefaultMQAdminExtImpl`` about nameservers (4.9.8). Of several that fail Java raises the
last failure; a missing key is an error there, here None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rocketpy.client.admin.brokers import read_settings, settings_body
from rocketpy.client.admin.requests import AdminRequests
from rocketpy.client.instance import read_response
from rocketpy.errors import RocketpyError
from rocketpy.protocol.bodies.route import ClusterInfo, KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.namesrv import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"
_FOUND_OR_NOT = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)


class NameServerAdmin:
    """Administration of nameservers. Obtained as :attr:`AdminClient.name_servers`."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    @property
    def addresses(self) -> list[str]:
        """The nameservers of this client."""
        return list(self._requests.instance.name_servers.addresses)

    async def clusters_by_address(self) -> tuple[dict[str, ClusterInfo], dict[str, RocketpyError]]:
        """Return the brokers that each nameserver knows, and why those that have not answered have not."""

        async def ask(address: str) -> ClusterInfo:
            response = await self._requests.ask_this_name_server(address, RequestCode.GET_BROKER_CLUSTER_INFO)
            return await self._requests.answers.body(response, ClusterInfo, address)

        return await self._requests.each_or_failure(self.addresses, ask)

    # ---- key-value configuration ----------------------------------------------------------------------------------

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Put a value under a key of a namespace, on every nameserver."""
        header = PutKVConfigRequestHeader(namespace=namespace, key=key, value=value)
        await self._requests.ask_name_servers(RequestCode.PUT_KV_CONFIG, header)

    async def kv(self, namespace: str, key: str) -> str | None:
        """Return the value under a key, None when there is none."""
        response = await self._requests.ask_name_server(
            RequestCode.GET_KV_CONFIG, GetKVConfigRequestHeader(namespace=namespace, key=key), expected=_FOUND_OR_NOT
        )
        if response.code != ResponseCode.SUCCESS:
            return None
        return read_response(response, GetKVConfigResponseHeader).value

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """Return keys and values of a namespace; none when it does not exist."""
        response = await self._requests.ask_name_server(
            RequestCode.GET_KVLIST_BY_NAMESPACE, GetKVListByNamespaceRequestHeader(namespace), expected=_FOUND_OR_NOT
        )
        return (
            (await self._requests.answers.body(response, KVTable)).table
            if response.code == ResponseCode.SUCCESS
            else {}
        )

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Delete a key, on every nameserver; one that is not there is no error."""
        header = DeleteKVConfigRequestHeader(namespace=namespace, key=key)
        await self._requests.ask_name_servers(RequestCode.DELETE_KV_CONFIG, header)

    # ---- the order of ordered topics ------------------------------------------------------------------------------

    async def order_conf(self, topic: str) -> str | None:
        """Return the order list of a topic, ``broker:queues;broker:queues``, None when it has none."""
        return await self.kv(ORDER_TOPIC_NAMESPACE, topic)

    async def put_order_conf(self, topic: str, value: str, *, is_cluster: bool = True) -> None:
        """Set the order list of a topic; with ``is_cluster=False`` only the entry of one broker, ``broker:queues``."""
        if not is_cluster:
            entries = {entry.partition(":")[0]: entry for entry in (await self.order_conf(topic) or "").split(";")}
            entries.pop("", None)
            entries[value.partition(":")[0]] = value
            value = ";".join(entries.values())
        await self.put_kv(ORDER_TOPIC_NAMESPACE, topic, value)

    async def delete_order_conf(self, topic: str) -> None:
        """Delete the order list of a topic."""
        await self.delete_kv(ORDER_TOPIC_NAMESPACE, topic)

    # ---- write permission of brokers ------------------------------------------------------------------------------

    async def wipe_write_perm(self, broker_name: str, *, addresses: Iterable[str] | None = None) -> dict[str, int]:
        """Take the write permission from all topics of a broker, until it registers them anew.

        Returns how many topics were changed, by nameserver.
        """
        header = WipeWritePermOfBrokerRequestHeader(broker_name)
        answers = await self._requests.ask_name_servers(
            RequestCode.WIPE_WRITE_PERM_OF_BROKER, header, addresses=addresses
        )
        return {
            address: read_response(answer, WipeWritePermOfBrokerResponseHeader).wipe_topic_count
            for address, answer in answers.items()
        }

    async def add_write_perm(self, broker_name: str, *, addresses: Iterable[str] | None = None) -> dict[str, int]:
        """Give the write permission back to all topics of a broker; return how many, by nameserver."""
        header = AddWritePermOfBrokerRequestHeader(broker_name)
        answers = await self._requests.ask_name_servers(
            RequestCode.ADD_WRITE_PERM_OF_BROKER, header, addresses=addresses
        )
        return {
            address: read_response(answer, AddWritePermOfBrokerResponseHeader).add_topic_count
            for address, answer in answers.items()
        }

    # ---- settings -------------------------------------------------------------------------------------------------

    async def config(self, addresses: Iterable[str] | None = None) -> dict[str, dict[str, str]]:
        """Return the settings of (these) nameservers by address and key."""
        answers = await self._requests.ask_name_servers(RequestCode.GET_NAMESRV_CONFIG, addresses=addresses)
        return {
            address: await read_settings(self._requests.answers, answer.body, address)
            for address, answer in answers.items()
        }

    async def update_config(self, settings: Mapping[str, str], addresses: Iterable[str] | None = None) -> None:
        """Change settings of (these) nameservers; nothing is sent when there is no setting."""
        if settings:
            body = settings_body(settings)
            await self._requests.ask_name_servers(RequestCode.UPDATE_NAMESRV_CONFIG, body=body, addresses=addresses)

"""Consumer groups: their settings and permissions on brokers.

Compatibility: the calls of ``DefaultMQAdminExtImpl`` about subscription groups (4.9.8).
"""

from __future__ import annotations

from rocketpy.client.admin.requests import AdminRequests, masters
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.headers.admin import DeleteSubscriptionGroupRequestHeader

SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
SYSTEM_GROUPS = frozenset(
    (
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
    )
)
"""Groups of RocketMQ itself, beside those with :data:`SYSTEM_GROUP_PREFIX`."""


class GroupAdmin:
    """Administration of consumer groups. Obtained as :attr:`AdminClient.groups`."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def create(self, config: SubscriptionGroupConfig, *, cluster: str | None = None) -> list[str]:
        """Create or update a group on every master (of one cluster); return the masters' addresses, sorted."""
        addresses = masters(await self._requests.cluster_info(), cluster)
        await self._requests.each(addresses, lambda address: self.update(address, config))
        return addresses

    async def update(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Create a group on one broker, or replace its settings there; a slave refuses."""
        await self._requests.ask_broker(
            address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(config)
        )

    async def config(self, address: str, group: str) -> SubscriptionGroupConfig | None:
        """Return the settings of a group on one broker, None when that broker does not have it."""
        return (await self.configs(address)).subscription_group_table.get(group)

    async def configs(self, address: str) -> SubscriptionGroupWrapper:
        """Return the settings of all groups of one broker."""
        response = await self._requests.ask_broker(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return await self._requests.answers.body(response, SubscriptionGroupWrapper, address)

    async def user_configs(self, address: str) -> SubscriptionGroupWrapper:
        """Return the settings of the groups of users on one broker, without those of RocketMQ itself."""
        wrapper = await self.configs(address)
        table = {
            group: config
            for group, config in wrapper.subscription_group_table.items()
            if group not in SYSTEM_GROUPS and not group.startswith(SYSTEM_GROUP_PREFIX)
        }
        return SubscriptionGroupWrapper(table, wrapper.data_version)

    async def delete(self, address: str, group: str, *, remove_offset: bool = False) -> None:
        """Delete the settings of a group on one broker, and its offsets there if asked to."""
        header = DeleteSubscriptionGroupRequestHeader(group_name=group, remove_offset=remove_offset)
        await self._requests.ask_broker(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

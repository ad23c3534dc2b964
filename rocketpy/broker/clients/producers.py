"""Producers that are online: groups and their connections, and connections by client id.

Tables only; a connection is a key here and nothing more. Compatibility: ``ProducerManager`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.broker.clients.channel import CHANNEL_EXPIRED_SECONDS, ClientChannelInfo
from rocketpy.remoting.connection import Connection

_TRIES = 3
MEMBER_BYTES = 600
"""Approximate memory of a connection's membership of a group, with the longest name."""


class ProducerManager:
    """Table of the producers of one broker. ``current_time`` is a clock in seconds that never steps."""

    def __init__(self, *, current_time: Callable[[], float]) -> None:
        self._current_time = current_time
        self._groups: dict[str, dict[Connection, ClientChannelInfo]] = {}
        self._groups_of: dict[Connection, set[str]] = {}
        self._channel_by_client_id: dict[str, Connection] = {}
        # connection -> client id -> number of groups: heartbeats may change the id group by group.
        self._group_counts: dict[Connection, dict[str, int]] = {}
        self._member_count = 0  # in all groups together
        self._turn = 0  # of available_channel, over all groups

    @property
    def groups(self) -> list[str]:
        """The groups that are online."""
        return list(self._groups)

    def groups_of(self, channel: Connection) -> set[str]:
        """Return the groups that a connection is in."""
        return set(self._groups_of.get(channel, ()))

    @property
    def kept_bytes(self) -> int:
        """Approximate memory taken by the heartbeats of all connections."""
        return self._member_count * MEMBER_BYTES

    def kept_bytes_of(self, channel: Connection) -> int:
        """Return the approximate memory taken by the heartbeats of a connection."""
        return len(self._groups_of.get(channel, ())) * MEMBER_BYTES

    def members(self, group: str) -> list[ClientChannelInfo] | None:
        """Return the members of a group, None when it has none online."""
        members = self._groups.get(group)
        return None if members is None else list(members.values())

    def silent_ms(self, client: ClientChannelInfo) -> int:
        """Return the time since a member's last heartbeat."""
        return int((self._current_time() - client.last_update) * 1000)

    def find_channel(self, client_id: str) -> Connection | None:
        """Return the connection of a client, to which replies to its requests are pushed."""
        return self._channel_by_client_id.get(client_id)

    def available_channel(self, group: str, access_key: str | None = None) -> Connection | None:
        """Return a connection of a group, round robin; None if none is open.

        One without backpressure is preferred, in three tries. With an access key, only connections qualify whose
        heartbeats are signed with it, or need no signature.
        """
        members = self._groups.get(group, {})
        channels = list(members)
        if access_key is not None:
            channels = [each for each in channels if members[each].access_key in (None, access_key)]
        self._turn += 1
        is_open = None
        for i in range(min(_TRIES, len(channels))):
            channel = channels[(self._turn + i) % len(channels)]
            if not channel.is_closed:
                if channel.wants_reading:
                    return channel
                is_open = channel
        return is_open

    def register_producer(self, group: str, client: ClientChannelInfo) -> bool:
        """Apply one group of a heartbeat; return True when the connection is new to it."""
        client.last_update = self._current_time()
        members = self._groups.setdefault(group, {})
        known = members.get(client.channel)
        self._member_count += known is None
        members[client.channel] = client
        self._groups_of.setdefault(client.channel, set()).add(group)
        if known is None or known.client_id != client.client_id:
            counts = self._group_counts.setdefault(client.channel, {})
            counts[client.client_id] = counts.get(client.client_id, 0) + 1
            if known is not None:
                self._leave_client_id(known)
        self._channel_by_client_id[client.client_id] = client.channel
        return known is None

    def unregister_producer(self, group: str, channel: Connection) -> bool:
        """Remove a connection from a group; False when it was not a member."""
        members = self._groups.get(group)
        client = members.pop(channel, None) if members is not None else None
        if client is None:
            return False
        self._member_count -= 1
        if not members:
            del self._groups[group]
        groups = self._groups_of[channel]
        groups.discard(group)
        if not groups:
            del self._groups_of[channel]
        self._leave_client_id(client)
        return True

    def close_channel(self, channel: Connection) -> list[str]:
        """Remove a closed connection from all its groups; return them."""
        groups = sorted(self._groups_of.get(channel, ()))
        for group in groups:
            self.unregister_producer(group, channel)
        return groups

    def scan_not_active_channel(self) -> list[Connection]:
        """Return the connections with a group whose heartbeats have stopped; the caller closes them."""
        oldest = self._current_time() - CHANNEL_EXPIRED_SECONDS
        expired = {
            info.channel: None
            for members in self._groups.values()
            for info in members.values()
            if info.last_update < oldest
        }
        return list(expired)

    def _leave_client_id(self, client: ClientChannelInfo) -> None:
        """Count down a connection's groups under a client id; remove the id with the last one."""
        counts = self._group_counts[client.channel]
        counts[client.client_id] -= 1
        if counts[client.client_id]:
            return
        del counts[client.client_id]
        if not counts:
            del self._group_counts[client.channel]
        if self._channel_by_client_id.get(client.client_id) is client.channel:
            del self._channel_by_client_id[client.client_id]

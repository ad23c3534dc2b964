"""The name and the addresses of this machine. There are two rules for "my own address", for two purposes.

- :func:`interface_address`, for brokers (brokerIP1, brokerIP2): an address by which other machines reach this one. It
  follows RocketMQ's choice among the interfaces, so that a broker has the same address under Java and here.
- :func:`outgoing_address`, for clients (client ids, unique keys): the address by which this machine reaches others.
  It only tells machines apart, and one look at the routing table is enough.

Both return loopback for a machine without any other address. No name is looked up and nothing is sent.

Compatibility: Java has one rule for both, ``RemotingUtil.getLocalAddress`` (4.9.8): of the interfaces that are neither
loopback nor a bridge, the first IPv4 address that does not start with 127.0 or 192.168, else the last IPv4 address,
else an IPv6 address. Java sees every address of an interface, ``interface_address`` sees the first one.
"""

from __future__ import annotations

import fcntl
import os.path
import socket
import struct
from collections.abc import Iterable, Iterator

_SIOCGIFADDR = 0x8915
_IFREQ = struct.Struct("16s24x")
_LOOPBACK = "127.0.0.1"
# TEST-NET-1 and the documentation prefix: routed like any foreign address, and assigned to no machine.
_FOREIGN = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def local_host_name() -> str:
    """Return the host's name, DEFAULT_BROKER when it has none."""
    return socket.gethostname() or "DEFAULT_BROKER"


def outgoing_address() -> str:
    """Return the IPv4 or IPv6 address by which this machine reaches others; loopback when it has no route.

    Connecting a datagram socket sends nothing: it only asks the routing table.
    """
    for family, foreign in _FOREIGN:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((foreign, 9))
                return str(probe.getsockname()[0]).partition("%")[0]
        except OSError:
            continue
    return _LOOPBACK


def packed_address(address: str) -> bytes:
    """Return the 4 or 16 bytes of an address."""
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def interface_address() -> str:
    """Return the address by which other machines probably reach this one."""
    return chosen_address(_interface_addresses())


def chosen_address(addresses: Iterable[str]) -> str:
    """Choose among the addresses of the interfaces, in their order."""
    ipv4: list[str] = []
    ipv6: list[str] = []
    for address in addresses:
        (ipv6 if ":" in address else ipv4).append(address)
    for address in ipv4:
        if not address.startswith(("127.0", "192.168")):
            return address
    return ipv4[-1] if ipv4 else ipv6[0] if ipv6 else _LOOPBACK


def _interface_addresses() -> Iterator[str]:
    for _, name in socket.if_nameindex():
        if os.path.exists(f"/sys/class/net/{name}/bridge"):
            continue
        address = _ipv4_address(name)
        if address is not None and not address.startswith("127."):
            yield address
    yield from _ipv6_addresses()


def _ipv4_address(interface: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            found = fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, _IFREQ.pack(interface.encode()[:15]))
        except OSError:  # an interface without an IPv4 address
            return None
    return socket.inet_ntoa(found[20:24])


def _ipv6_addresses() -> Iterator[str]:
    """Yield the global IPv6 addresses. Lines have address, index, prefix length, scope (00 is global), flags, name."""
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split()
        if len(fields) == 6 and fields[3] == "00":
            yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[0]))

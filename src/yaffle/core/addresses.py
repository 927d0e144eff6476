"""Address rules: which hosts and networks Yaffle may connect to on a user's behalf.

A user who can name a URL must not reach what the engine's host can reach and the user cannot: the
link-local metadata service above all (SECURITY.md).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
TRANSLATED: Final = ipaddress.IPv6Network("::ffff:0:0:0/96")
COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
LOOPBACK: Final = ipaddress.IPv6Address("::1")

METADATA: Final[dict[str, str]] = {
    "169.254.169.254": "AWS, GCP (metadata.google.internal), OpenStack, Azure, Oracle and others",
    "169.254.170.2": "AWS ECS: credentials of a task",
    "169.254.170.23": "AWS EKS: credentials of a pod",
    "fd00:ec2::254": "AWS",
    "fd00:ec2::23": "AWS EKS: credentials of a pod",
    "fd20:ce::254": "GCP (metadata.google.internal)",
    "fe80::a9fe:a9fe": "OpenStack",
    "fd00:42::42": "Scaleway",
    "100.100.100.200": "Alibaba",
    "168.63.129.16": "Azure: its wire server",
    "192.0.0.192": "Oracle: Classic",
}
"""Where clouds hand out their machines' secrets, and whose it is; SECURITY.md shows this table."""

DENIED: Final[tuple[Network, ...]] = (
    ipaddress.ip_network("169.254.0.0/16"),
    ipaddress.ip_network("fe80::/10"),
    *(ipaddress.ip_network(address) for address in METADATA),
)
NEVER: Final[tuple[Network, ...]] = (
    ipaddress.ip_network("0.0.0.0/8"),
    ipaddress.ip_network("224.0.0.0/4"),
    ipaddress.ip_network("255.255.255.255/32"),
    ipaddress.ip_network("::/128"),
    ipaddress.ip_network("ff00::/8"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressRules:
    """`deny` wins over `allow`; an empty `allow` means everything that is not denied."""

    allow: tuple[Network, ...] = ()
    deny: tuple[Network, ...] = DENIED


def refusal(rules: AddressRules, address: str) -> str | None:
    """Return why `address` (an IP literal) may not be spoken to, or None where it may."""
    try:
        ip = ipaddress.ip_address(address.split("%", 1)[0])
    except ValueError:
        return f"{address!r} is not an IP address"
    meant = _meant(ip)
    for spelling in meant:
        for network in (*NEVER, *rules.deny):
            if spelling in network:
                return f"{spelling} is in {network}, which is denied"
    for carried in _carried(ip):
        for network in rules.deny:
            if carried in network:
                return f"{ip} leads to {carried} in {network}, which is denied"
    if rules.allow and not any(m in network for m in meant for network in rules.allow):
        return f"{ip} is in none of the allowed networks"
    return None


def _meant(ip: Address) -> tuple[Address, ...]:
    """Return the address and the IPv4 address that it is only another spelling of."""
    if isinstance(ip, ipaddress.IPv4Address):
        return (ip,)
    found = (ip.ipv4_mapped, _low(ip) if ip in NAT64 else None)
    return (ip, *(address for address in found if address is not None))


def _carried(ip: Address) -> tuple[Address, ...]:
    """Return the IPv4 addresses where a tunnel or translator may take a packet to this one.

    They can only be a reason to refuse, never one to allow: the packet may as well end elsewhere.
    """
    if isinstance(ip, ipaddress.IPv4Address):
        return ()
    found = [ip.sixtofour, *(ip.teredo or ())]
    if ip in TRANSLATED or (ip in COMPATIBLE and ip != LOOPBACK):
        found.append(_low(ip))
    # ISATAP: any prefix, then 5efe (with or without the bit "universal"), then the address.
    if (int(ip) >> 32) & 0xFCFFFFFF == 0x5EFE:
        found.append(_low(ip))
    if ip in LOCAL_NAT64:
        # RFC 6052 for each prefix an operator may have cut from it; byte 8 is always left out.
        octets = ip.packed
        found += [
            ipaddress.IPv4Address(bytes(octets[i] for i in places))
            for places in ((6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12), (12, 13, 14, 15))
        ]
    return tuple(address for address in found if address is not None)


def _low(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)

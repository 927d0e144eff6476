"""Which addresses Yaffle may speak to on a user's behalf; asked again at connect, not only at parse.

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

LINK_LOCAL: Final[tuple[Network, ...]] = (
    ipaddress.ip_network("169.254.0.0/16"),
    ipaddress.ip_network("fe80::/10"),
    ipaddress.ip_network("fd00:ec2::254/128"),
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
    deny: tuple[Network, ...] = LINK_LOCAL


def refusal(rules: AddressRules, address: str) -> str | None:
    """Return why `address` (an IP literal) may not be spoken to, or None where it may."""
    try:
        ip = ipaddress.ip_address(address.split("%", 1)[0])
    except ValueError:
        return f"{address!r} is not an IP address"
    spellings = (ip, *_embedded(ip))
    for spelling in spellings:
        for network in (*NEVER, *rules.deny):
            if spelling in network:
                return f"{spelling} is in {network}, which is denied"
    if rules.allow and not any(s in network for s in spellings for network in rules.allow):
        return f"{ip} is in none of the allowed networks"
    return None


def _embedded(ip: Address) -> tuple[Address, ...]:
    """Return the IPv4 addresses that an IPv6 one stands for: each may be where the packet ends."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ()
    nat64 = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in NAT64 else None
    found = (ip.ipv4_mapped, ip.sixtofour, nat64)
    return tuple(address for address in found if address is not None)

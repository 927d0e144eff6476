"""Which addresses Yaffle may speak to on a user's behalf; asked again at connect, not only at parse.

A user who can name a URL must not reach what the engine's host can reach and the user cannot: the
link-local metadata service above all (SECURITY.md).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

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
    # ::ffff:169.254.169.254 reaches the same host as 169.254.169.254.
    mapped = getattr(ip, "ipv4_mapped", None)
    ip = mapped if mapped is not None else ip
    for network in (*NEVER, *rules.deny):
        if ip in network:
            return f"{ip} is in {network}, which is denied"
    if rules.allow and not any(ip in network for network in rules.allow):
        return f"{ip} is in none of the allowed networks"
    return None

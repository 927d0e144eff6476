"""Matching of nodes with members of a pool: by name, by id or by address, never by guessing.

A member is the node's when its name is the node's name, its id or its physical id, or when its
address is the node's (`node_ip`, and `port` where the node has one). One member has to come out:
none, several, or one that another node claims too, and nothing is known.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from yaffle.drivers.detectors.load_balancer.pool import Member
from yaffle.model.operations import Target

Place = tuple[str, str]
"""IP and port as texts; the port is empty for "any"."""
Key = str | Place
"""A name, or an address."""


def match(targets: Sequence[Target], pool: Sequence[Member]) -> list[Member | str]:
    """Return each target's member, in order, or the code that says why there is none."""
    places: defaultdict[Key, set[int]] = defaultdict(set)
    for place, member in enumerate(pool):
        for key in _keys_of_member(member):
            places[key].add(place)
    found = [
        {place for key in _keys_of_node(target) for place in places.get(key, ())}
        for target in targets
    ]
    # Whoever fits several claims none: one node without a port must not put all others in doubt.
    claims = Counter(place for some in found if len(some) == 1 for place in some)
    return [_one(some, claims, pool) for some in found]


def _one(places: set[int], claims: Mapping[int, int], pool: Sequence[Member]) -> Member | str:
    if not places:
        return "LB-NO-MEMBER"
    place, *more = places
    return "LB-AMBIGUOUS" if more or claims[place] > 1 else pool[place]


def places_of(members: Sequence[Member]) -> set[Place]:
    """Return the addresses of the members, each with its port and without."""
    return {place for member in members for place in _places(member)}


def addresses(target: Target) -> set[Place]:
    """Return the node's address, with its port where it has one; empty where it has none."""
    ip, port = _ip(target.attributes.get("node_ip")), target.attributes.get("port")
    return {(ip, "" if port in {None, ""} else str(port))} if ip else set()


def _places(member: Member) -> list[Place]:
    host, _, port = member.address.rpartition(":")
    ip = _ip(host.strip("[]"))
    return [(ip, port), (ip, "")] if ip else []


def _keys_of_member(member: Member) -> list[Key]:
    return [member.name, *_places(member)]


def _keys_of_node(target: Target) -> set[Key]:
    keys: set[Key] = {target.name, target.node_id, *addresses(target)}
    if target.physical_id:
        keys.add(target.physical_id)
    return keys


def _ip(text: object) -> str:
    """Return the address as it is spelt everywhere; empty where it is none."""
    if not isinstance(text, str):
        return ""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""

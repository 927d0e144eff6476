"""First lines of a watch: what was found, in which groups, what is watched, what cannot be seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from yaffle.cli import durations
from yaffle.cli.dry_run.messages import Kind, Line, fence, rung
from yaffle.errors import YaffleError
from yaffle.model.counts import count
from yaffle.model.ids import NodeId
from yaffle.model.operations import Actor, Target

if TYPE_CHECKING:
    from yaffle.cli.dry_run.inventory import Change
    from yaffle.integrations.openstack import Client, Cloud, Identity
    from yaffle.model.operations import Present
    from yaffle.policy import ParsedPolicy
    from yaffle.wiring import Watching

ASK_S: Final = 15.0
GROUPS_MAX: Final = 20
"""Groups that are told by name."""


class Project(msgspec.Struct, frozen=True, kw_only=True):
    """A project, as Keystone lists it."""

    id: str
    name: str = ""


class Projects(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /projects`."""

    projects: list[Project]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Our identity, and what its credentials let us see."""

    identity: Identity
    hosts: bool
    """How the machines under the servers are."""
    unseen: tuple[str, ...]
    """What is not seen, and why."""


async def names_of(cloud: Cloud, identity: Identity, *, all_projects: bool) -> Mapping[str, str]:
    """Return the names of projects by their ids, as far as we are told."""
    mine = {identity.project_id: identity.project}
    if not all_projects:
        return mine
    try:
        return {**await cloud.call(_projects, ASK_S), **mine}
    except (TimeoutError, YaffleError):
        # They are called by their ids then.
        return mine


def _projects(client: Client) -> Mapping[str, str]:
    try:
        answer = client.get("identity", "/projects")
    except YaffleError:
        # The catalog may have Keystone with its version, or without.
        answer = client.get("identity", "/v3/projects")
    return {p.id: p.name for p in answer.parsed(Projects).projects}


async def seen_of(
    parts: Watching, identity: Identity, servers: Sequence[Present], *, all_projects: bool
) -> Seen:
    """Try what these credentials may see, on one server."""
    unseen: list[str] = []
    hosts = False
    placed = [s for s in servers if "status ACTIVE" in s.detail] or list(servers)
    if placed:
        target = Target(
            node_id=NodeId(""),
            name=placed[0].name,
            physical_id=placed[0].physical_id,
            profile_type=parts.nova.type,
            spec={},
        )
        (host,) = await parts.nova.hosts([target], deadline_s=ASK_S)
        hosts = bool(host.name)
        if not hosts:
            unseen.append(
                f"hosts: {host.detail}; Nova tells administrators only. A dead host is noticed by"
                " what Nova says of its servers, and it says ACTIVE for long"
            )
        cause = await parts.nova.cause(target, deadline_s=ASK_S)
        if cause.actor in {Actor.UNKNOWN, Actor.UNASKED}:
            unseen.append(
                f"who asked for what: {cause.detail}. What a user switched off looks like a failure"
            )
    if not all_projects:
        where = identity.project or identity.project_id
        unseen.append(f"other projects: these credentials are for {where}; see --all-projects")
    unseen.append(
        "notifications: nobody listens to the cloud's broker, so each change is seen at the next look"
    )
    return Seen(identity=identity, hosts=hosts, unseen=tuple(unseen))


def beginning(
    cloud: str,
    seen: Seen,
    servers: Sequence[Present],
    found: Change,
    policy: ParsedPolicy,
    *,
    still: int = 0,
) -> Line:
    """Return the first line; `still`: failures of earlier runs that are not over."""
    claimed = len(found.claimed)
    watched = len(servers) - claimed
    groups = found.sizes
    health, who = policy.health, seen.identity
    roles = f", roles {', '.join(who.roles)}" if who.roles else ""
    left = f"servers: {claimed} are nodes of a Yaffle or Senlin already, and left to that"
    unseen = [*seen.unseen, *([left] if claimed else [])]
    detection, actions = health.detection, health.recovery.actions
    plan = f"{detection.fall} failed looks in a row are a failure; then " + ", then ".join(
        map(rung, actions)
    )
    named = [
        ("group", f"{name}: {count(n, 'server')}") for name, n in list(groups.items())[:GROUPS_MAX]
    ]
    more = len(groups) - len(named)
    return Line(
        kind=Kind.BEGAN,
        text=f"cloud {cloud}: {count(watched, 'server')} in {count(len(groups), 'group')},"
        f" looked at every {durations.shown(detection.interval_s)} as {who.user or 'this user'} of"
        f" {who.project or who.project_id or 'this project'}{roles}; nothing is ever changed in it",
        more=(
            *named,
            *([("group", f"and {more} more")] if more > 0 else []),
            ("status", ", ".join(f"{w} {n}" for w, n in _statuses(servers))),
            ("watched", ", ".join(mode.type.value for mode in detection.modes)),
            ("policy", plan),
            ("fence", fence(health.recovery)),
            *(("unseen", one) for one in unseen),
            *([("still", _still(still))] if still else []),
        ),
        data={
            "servers": watched,
            "groups": dict(groups),
            "statuses": dict(_statuses(servers)),
            "roles": list(who.roles),
            "unseen": unseen,
        },
    )


def _statuses(servers: Sequence[Present]) -> list[tuple[str, int]]:
    words = Counter(s.detail.partition(",")[0].removeprefix("status ") for s in servers)
    return sorted(words.items(), key=lambda pair: (-pair[1], pair[0])) or [("none", 0)]


def _still(number: int) -> str:
    return f"{count(number, 'failure')} told before and not over; --report says which"

"""The table of sentences for holds: one row per reason, with its numbers and what can be done.

A test reads this table: every reason is in it, and every number it names is one its guard gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from yaffle.model.incident import HoldReason

MISSING: Final = "missing"
"""Among a hold's numbers: why what would be given up could not be made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Wording of one reason; `{name}` stands for a number of the decision."""

    sentence: str
    by_road: str = ""
    """Told instead where one kind of detection was counted alone."""
    by_lack: str = ""
    """Told instead where nothing could be begun, for what a new copy needs is missing."""
    uncounted: str = ""
    """Told instead where the recovery before counts as no attempt: asked for by a person, or stopped."""
    advice: str
    """`{node}` and `{cluster}` are names, `{incident}` the beginning of the incident's id."""


EXPLANATIONS: Final[Mapping[HoldReason, Explanation]] = {
    HoldReason.STOPPED: Explanation(
        sentence="{owner} stopped all healing: {reason}.",
        advice="First do what the reason asks for, then `yaffle stop --lift`.",
    ),
    HoldReason.MAINTENANCE: Explanation(
        sentence="{owner} has planned work here (scope {scope}): {reason}.",
        advice="When it is over: `yaffle maintenance end {pause}`.",
    ),
    HoldReason.DEPENDENCY_LOST: Explanation(
        sentence="We have lost something that we need in order to act safely: {lost}.",
        advice="Bring it back; `yaffle doctor` says more. We go on by ourselves then.",
    ),
    HoldReason.BLIND: Explanation(
        sentence="Of {asked} nodes {answered} answered, and of {references_asked} reference"
        " targets {references_answered}: the fault may be ours.",
        by_road="By {road} alone it is unhealthy, and by that {answered} of {asked} nodes"
        " answered, and {references_answered} of {references_asked} reference targets: the fault"
        " may be ours.",
        advice="Look at the network between this machine and the nodes, not at the nodes.",
    ),
    HoldReason.RESETTLING: Explanation(
        sentence="We could not see for a while (start, take-over, outage, late loop) and are asking"
        " everything afresh before we believe the worst.",
        advice="Wait: it ends after `fall` fresh answers. `yaffle doctor` if it does not.",
    ),
    HoldReason.NODE_BUSY: Explanation(
        sentence="{action} is working on it.",
        advice="Wait for its end.",
    ),
    HoldReason.NEEDS_HUMAN: Explanation(
        sentence="Recoveries tried: {attempts} of {allowed}, and it is unhealthy again.",
        advice="Find the cause, then `yaffle incident ack {incident}` (its attempts begin anew), or"
        " `yaffle node recover {node}` for one more.",
    ),
    HoldReason.COOLING_DOWN: Explanation(
        sentence="It backs off after attempt {attempts} of {allowed}.",
        uncounted="It backs off after a recovery that counts as no attempt.",
        by_lack="No attempt was spent: {missing}. It is asked again, ever more rarely, and heals by"
        " itself once that can be had.",
        advice="Wait, or `yaffle node recover {node}` to go on at once.",
    ),
    HoldReason.HOST_UNCLEAR: Explanation(
        sentence="Of {watched} nodes on its host {host} {sick} fail together as if it were lost and"
        " {suspect} more are suspected, {alive} answer for themselves, and of the host the backend"
        " says: {word}. It may be the host, its agent, its network, or our own view.",
        advice="Look at {host}, not at the node; then `yaffle node recover {node}`, or"
        " `yaffle cluster release {cluster} --reason WHY` for all of the cluster.",
    ),
    HoldReason.STORM: Explanation(
        sentence="{sick} of {capacity} nodes are unhealthy or being healed, {suspect} more are suspected;"
        " the storm limit holds above {threshold}.",
        advice="Find what they have in common; then `yaffle cluster release {cluster} --reason WHY`, or"
        " `yaffle node recover {node}` for this one.",
    ),
    HoldReason.DOMAIN_STORM: Explanation(
        sentence="In {domain} {sick} nodes are unhealthy or being healed, {suspect} more are suspected;"
        " the storm limit holds above {threshold}.",
        advice="Look at {domain} first; then `yaffle cluster release {cluster} --reason WHY`.",
    ),
    HoldReason.OBSERVE_MODE: Explanation(
        sentence="The policy only observes; it would have done {would}.",
        advice="`yaffle node recover {node}`, or `recovery.mode: recover` in the policy.",
    ),
    HoldReason.IN_FLIGHT: Explanation(
        sentence="Recoveries under way: {in_flight}; no more than {limit} may be.",
        advice="Wait: it is next when one of them ends.",
    ),
    HoldReason.RATE: Explanation(
        sentence="The budget of {scope} {key} is spent: {burst} at once and {per_hour} an hour.",
        advice="Find what makes so many fail; the budget fills by itself.",
    ),
}


class _Filled(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "?"


def sentence(reason: HoldReason, numbers: Mapping[str, object]) -> str:
    """Return the reason in one sentence; a number that is missing is a question mark."""
    row = EXPLANATIONS[reason]
    told = row.by_road if numbers.get("road") else row.by_lack if numbers.get(MISSING) else ""
    told = told or (row.uncounted if numbers.get("attempts") == 0 else "")
    return (told or row.sentence).format_map(
        _Filled({name: _shown(value) for name, value in numbers.items()})
    )


def advice(
    reason: HoldReason,
    numbers: Mapping[str, object],
    *,
    node: str,
    cluster: str,
    incident: str = "ID",
) -> str:
    """Return what a person can do."""
    names = {name: _shown(value) for name, value in numbers.items()}
    return EXPLANATIONS[reason].advice.format_map(
        _Filled({**names, "node": node, "cluster": cluster, "incident": incident})
    )


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "nothing"
    return f"{value:g}" if isinstance(value, float) else str(value)

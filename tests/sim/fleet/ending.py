"""After the storm: every dark node is healed, held for a true reason or given to a person; nobody's
news is lost; nothing is left over. Each within a bound.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tests.sim.fleet.shapes import BUDGETS, SETTINGS

from yaffle.errors import StoreUnavailable
from yaffle.model.policy import RecoveryMode, WhenExceeded
from yaffle.policy.arithmetic import arithmetic

if TYPE_CHECKING:
    from tests.sim.fleet.fleet import Fleet

TAKEOVER_S = SETTINGS.lease + 1.0
STUCK_S = 60.0
"""What was begun in the storm and hangs ends at its own deadlines, and is tried once more."""
PATIENCE_S = 150.0
"""Older documents give an action ten minutes: what is under way for less may stay so."""
PACE_S = 2.0
LASTING = {"needs-human", "storm", "stopped", "maintenance", "observe-mode"}
NEWS_S = 330.0
"""An outbox rests for five minutes at most between two attempts."""
WITH_AN_ENGINE = 0.4
"""Share of those in which an engine dies with it."""
ONE_MORE = 0.35
"""Share of worlds in which one more node dies in calm weather."""


async def is_good(fleet: Fleet) -> None:
    """Wait until all is well or truly held; then look whether all was told."""
    if fleet.referee.forgot_s is not None:
        await _lift(fleet)
    bound_s = _bound_s(fleet)
    await _settled(fleet, bound_s)
    rng = fleet.rng
    if rng.random() < ONE_MORE and not list(dark(fleet)):
        await _one_more(fleet)
    await _told(fleet)


async def _lift(fleet: Fleet) -> None:
    """A person has compared what there is with what the rows say, and lets go on."""
    clock = fleet.base.clock
    end_s = fleet.now_s + TAKEOVER_S + 5
    while not fleet.referee.noticed() and fleet.now_s < end_s:
        await clock.sleep(0.5)
    if fleet.referee.has_to_be_noticed and not fleet.referee.noticed():
        fleet.referee.fail("the database went back, and nobody noticed")
    fleet.referee.compare()
    fleet.note("== a person has compared, and lifts the stop")
    try:
        await fleet.commands.lift_stop(by="op")
    except StoreUnavailable:  # this was the first write since, and found out itself
        await fleet.commands.lift_stop(by="op")


def _bound_s(fleet: Fleet) -> float:
    """Return the longest that any node may be dark without a reason, once the storm is over."""
    longest_s = 0.0
    for cluster in fleet.shape.clusters:
        total_s = arithmetic(cluster.health).total_s
        assert total_s is not None
        longest_s = max(longest_s, min(total_s, PATIENCE_S))
    return TAKEOVER_S + STUCK_S + longest_s


def _grace_left_s(fleet: Fleet) -> float:
    """Return for how long some node may be left alone yet; what policies print is beyond that."""
    now_us = fleet.base.clock.now_us()
    left_s = 0.0
    for node in fleet.nodes():
        if node.grace_us is not None:
            detection = fleet.referee.policy(node.cluster_id).detection
            past_s = (now_us - node.grace_us) / 1e6
            left_s = max(left_s, detection.node_update_timeout_s - past_s)
    return left_s


async def _settled(fleet: Fleet, bound_s: float) -> None:
    end_s = fleet.now_s + bound_s + _grace_left_s(fleet)
    lasting = 0
    while True:
        await fleet.base.clock.sleep(PACE_S)
        sick = list(dark(fleet))
        if not sick and not unfinished(fleet):
            return
        untrue = [n for n in sick if (why := reason(fleet, n)) is None or why not in LASTING]
        lasting = 0 if untrue or unfinished(fleet) else lasting + 1
        if lasting > 4:  # nothing is going to change any more
            return
        if fleet.now_s >= end_s:
            break
    for node in dark(fleet):
        if reason(fleet, node) is None:
            held = node.open.hold_reason if node.open else "nothing"
            fleet.referee.fail(
                f"{node.name} is dark ({node.health}, {node.status}) after {bound_s:.0f} s of calm,"
                f" held for {held!r}, which is not so"
            )


def dark(fleet: Fleet) -> Iterator[Any]:
    """Yield every node that does not serve though it should, and each whose row says that it is ill."""
    opened = {
        i.node_id: i for i in fleet.base.rows("select * from incidents where open_key is not null")
    }
    for node in fleet.nodes():
        node["open"] = opened.get(node.id)
        policy = fleet.referee.policy(node.cluster_id)
        copies = fleet.world.alive(node.id)
        serves = any(c.serving for c in copies)
        condemned = serves or not copies or "URL" in _condemning(policy)
        if node.health != "healthy" or (not serves and condemned):
            yield node


def _condemning(policy: Any) -> str:
    """Name the modes that condemn a node by themselves: one that hangs still runs, for a backend."""
    modes = " ".join(m.type.value for m in policy.detection.modes)
    if policy.detection.conditional.value == "ANY_FAILED" or "POLLING" not in modes:
        return modes
    return ""


def unfinished(fleet: Fleet) -> Sequence[Any]:
    return fleet.base.rows(
        "select * from actions where lock_key is not null and status in"
        " ('READY', 'RUNNING', 'WAITING')"
    )


def reason(fleet: Fleet, node: Any) -> str | None:
    """Return why the node is rightly left alone, by our own computation; None where it is not."""
    referee = fleet.referee
    policy = referee.policy(node.cluster_id)
    if node.exhausted_us is not None:
        return "needs-human"
    if _under_way(fleet, node):
        return "under way"
    if node.health not in {"unhealthy", "healthy"}:
        return None
    held = node.open.hold_reason if node.open else None
    now_us = fleet.base.clock.now_us()
    active = [a for a in unfinished(fleet) if a.action == "NODE_RECOVER" and a.status != "WAITING"]
    mine = [a for a in active if a.cluster_id == node.cluster_id]
    paused = {p.kind for p in referee.pauses(None, node.id, node.cluster_id)}
    limit = policy.recovery.limits
    sick = {n.id for n in dark(fleet) if n.cluster_id == node.cluster_id} | {
        a.node_id for a in mine
    }
    stormy = len(sick) > referee.threshold(node.cluster_id, policy)
    slow = limit.when_exceeded is WhenExceeded.SLOW
    truths = {
        "stopped": "stop" in paused,
        "maintenance": "maintenance" in paused,
        "observe-mode": policy.recovery.mode is RecoveryMode.OBSERVE,
        "needs-human": node.attempts >= policy.recovery.retry.attempts,
        "cooling-down": (node.next_attempt_us or 0) > now_us,
        "storm": stormy and (not slow or bool(mine)),
        "in-flight": len(mine) >= limit.max_in_flight
        or len(active) >= min(BUDGETS.total.max_in_flight, BUDGETS.cluster.max_in_flight),
        "rate": referee.spent(node.cluster_id),
    }
    return held if held is not None and truths.get(held) else None


def _under_way(fleet: Fleet, node: Any) -> bool:
    """Whether somebody who is able is healing it, for no longer than its policy prints."""
    total_s = arithmetic(fleet.referee.policy(node.cluster_id)).total_s or 0.0
    now_us = fleet.base.clock.now_us()
    return any(
        a.node_id == node.id
        and a.action == "NODE_RECOVER"
        and (a.status != "RUNNING" or a.lease_us > now_us)
        and now_us - a.created_us < (total_s + TAKEOVER_S + STUCK_S) * 1e6
        for a in unfinished(fleet)
    )


async def _one_more(fleet: Fleet) -> None:
    """One failure in calm weather is healed within what the policy prints."""
    rows = [
        n
        for n in fleet.nodes()
        if fleet.referee.policy(n.cluster_id).recovery.mode is not RecoveryMode.OBSERVE
        and n.attempts == 0
        and n.grace_us is None
        and not list(fleet.referee.pauses(None, n.id, n.cluster_id))
        and not fleet.referee.spent(n.cluster_id)
    ]
    if not rows or len(rows) < 2:
        return
    victim = fleet.rng.choice(rows)
    printed = arithmetic(fleet.referee.policy(victim.cluster_id))
    assert printed.total_s is not None
    assert printed.detect_s is not None
    # Another engine may have died at the end of the storm: its watches are taken when its lease is over.
    total_s, detect_s = printed.total_s, printed.detect_s + TAKEOVER_S
    fleet.note(f"== one more: {victim.name} dies; it may take {total_s:.1f} s")
    fleet.world.kill(victim.id)
    began_s = fleet.now_s
    if fleet.rng.random() < WITH_AN_ENGINE:
        await _successor(fleet)
        total_s += TAKEOVER_S
    while True:
        await fleet.base.clock.sleep(PACE_S)
        if not list(dark(fleet)) and not unfinished(fleet):
            return
        took_s = fleet.now_s - began_s
        if took_s > detect_s + PACE_S and not _found_out(fleet, victim.id, took_s):
            fleet.referee.fail(f"{victim.name} has failed, unseen for longer than {detect_s:.1f} s")
        if took_s > total_s:
            fleet.referee.fail(f"{victim.name} was dark for longer than {total_s:.1f} s in calm")


async def _successor(fleet: Fleet) -> None:
    """An engine dies with the node: whoever goes on grants nobody a second grace."""
    await fleet.kill(fleet.rng.choice(fleet.living))
    if not fleet.living:
        fleet.start()


def _found_out(fleet: Fleet, ident: str, since_s: float) -> bool:
    """Whether it is, or was of late, known that the node has failed."""
    since_us = fleet.base.clock.now_us() - int(since_s * 1e6)
    return bool(
        fleet.base.rows(
            "select id from nodes where id = ? and health = 'unhealthy' union"
            " select id from incidents where node_id = ? and (open_key is not null or opened_us > ?)",
            ident,
            ident,
            since_us,
        )
    )


async def _told(fleet: Fleet) -> None:
    """Every change of an incident has its message, and it arrived."""
    end_s = fleet.now_s + NEWS_S
    while fleet.base.rows("select id from outbox where state = 'pending'"):
        if fleet.now_s > end_s:
            fleet.referee.fail("news is not delivered")
        await fleet.base.clock.sleep(5.0)
    arrived = {m.id for m in fleet.notifier.received}
    sent = {m.event_seq: m for m in fleet.base.rows("select * from outbox")}
    # Of nodes that fail with their host the host's incident tells, but for what a person has to do.
    parts = {i.id for i in fleet.base.rows("select id from incidents where parent_id is not null")}
    states: dict[str, list[str]] = {}
    for event in fleet.base.rows("select * from events where action = 'INCIDENT' order by seq"):
        known = states.setdefault(event.incident_id, [])
        message = sent.get(event.seq)
        quiet = event.incident_id in parts and event.status != "exhausted"
        if message is None and not quiet and not (event.status == "open" and "open" in known):
            fleet.referee.fail(f"{event.oname} became {event.status}: nobody was told")
        if message is not None and message.state != "accepted":
            fleet.referee.fail(f"{event.oname} became {event.status}: {message.last_error}")
        if message is not None and message.id not in arrived:
            fleet.referee.fail(f"{event.oname} became {event.status}: said to be told, was not")
        known.append(event.status)
    for incident in fleet.base.rows("select * from incidents"):
        told = states.get(incident.id, [])
        if told[:1] != ["open"] or told[-1] != incident.state:
            fleet.referee.fail(f"incident of {incident.node_name}: {incident.state}, told {told}")


def picture(fleet: Fleet) -> Iterator[str]:
    """Yield what a person would want to see when a world failed."""
    yield f"at {fleet.now_s:.1f} s, engines {[str(n) for n in fleet.living]}"
    for n in fleet.nodes():
        copies = [(c.physical_id, c.serving) for c in fleet.world.alive(n.id)]
        yield (
            f"{n.name} {n.id[:8]} {n.status} {n.health} phys={n.physical_id} copies={copies}"
            f" attempts={n.attempts} exhausted={n.exhausted_us} mark={n.mark_reason}"
            f" next={n.next_attempt_us} {n.status_reason[:120]}"
        )
    for a in unfinished(fleet):
        yield f"{a.action} {a.node_id} {a.status} epoch={a.epoch} {a.status_reason[:100]}"
    for i in fleet.base.rows("select * from incidents where open_key is not null"):
        yield f"incident of {i.node_name}: {i.state} {i.hold_reason} {i.hold_numbers}"
    for d in fleet.base.rows("select * from decisions order by seq desc limit 12"):
        inputs = json.dumps(json.loads(d.inputs))[:100]
        yield f"decision {(d.at_us / 1e6):.1f} {d.node_id[:8]} {d.kind} {d.reason} {d.numbers} {inputs}"
    for w in fleet.base.rows("select * from watches"):
        yield f"watch {w.cluster_id[:8]} owner={w.owner[:8]} epoch={w.epoch} lease={w.lease_us}"

"""Judges a finished history from rows, diaries and the operator's own notes, each rule by itself.

No rule asks the code under test what it thinks: thresholds, budgets and reasons are computed again.
One does, of purpose: whether each decision follows from its own row (`_recomputes`).
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.lab import Lab
from tests.chaos.operator import Deed
from tests.chaos.receiver import Receiver, overtaken

from yaffle.core.decision_audit.replay import Agreement, recheck
from yaffle.engine.action_inputs.default_policy import without_policy
from yaffle.engine.queries.decisions import stored

SECOND = 1_000_000


@dataclass
class History:
    """Everything that is known of one run."""

    here: Lab
    deeds: Sequence[Deed]
    receiver: Receiver
    max_in_flight: int
    total_in_flight: int
    burst: int
    per_hour: float
    fall: int
    interval_s: float
    attempts: int

    def __post_init__(self) -> None:
        read = self.here.rows
        self.decisions = read("select * from decisions order by seq")
        self.actions = read("select * from actions order by created_us")
        self.steps = read("select * from steps")
        self.incidents = read("select * from incidents order by opened_us")
        self.events = read("select * from events order by seq")
        self.pauses = read("select * from pauses")
        self.proofs = read("select * from proofs")
        self.engines = read("select * from engines order by started_us")
        self.names = {e["oid"]: e["oname"] for e in self.events if e["otype"] == "NODE"}
        self.recoveries = [a for a in self.actions if a["action"] == "NODE_RECOVER"]

    def faults(self) -> list[str]:
        """Return every broken rule."""
        return [f"{rule.__name__[1:]}: {fault}" for rule in RULES for fault in rule(self)]

    def admitted_us(self, action: sqlite3.Row) -> int | None:
        """Return when a recovery was admitted: the decision's time, not that of the request."""
        for one in self.decisions:
            if (
                one["kind"] == "recover"
                and one["node_id"] == action["node_id"]
                and one["incident_id"] == action["incident_id"]
                and one["at_us"] >= action["created_us"]
            ):
                return int(one["at_us"])
        return None

    def spans(self) -> list[tuple[int, int, sqlite3.Row]]:
        """Return admission, end and row of every recovery that was admitted."""
        found = []
        for action in self.recoveries:
            began = self.admitted_us(action)
            if began is not None:
                found.append((began, action["end_us"] or 2**62, action))
        return found

    def frozen(self) -> list[Deed]:
        """Return the stretches in which the engine could not run."""
        return [d for d in self.deeds if d.what == "frozen"]


def _two_copies(history: History) -> Iterator[str]:
    yield from history.here.violations()


def _unexplained_copy(history: History) -> Iterator[str]:
    """Every start of a process lies within an action of its node that may start one."""
    for name in sorted({*history.names.values()}):
        ids = {i for i, n in history.names.items() if n == name}
        for life in history.here.lives(name):
            covering = [
                a
                for a in history.actions
                if a["node_id"] in ids
                and a["action"] in {"NODE_CREATE", "NODE_RECOVER"}
                and a["created_us"] <= life.start_us <= (a["end_us"] or 2**62)
            ]
            if not covering:
                yield f"{name}: pid {life.pid} started at {life.start_us}, asked for by nothing"
            for action in covering:
                if action["action"] == "NODE_RECOVER" and not action["incident_id"]:
                    yield f"{name}: recovery {action['id']} has no incident"


def _act_before_intent(history: History) -> Iterator[str]:
    """Each CREATE step of a recovery has a proof of its own action, older than itself."""
    for step in history.steps:
        if step["stage"] != "create" or step["submitted_us"] is None:
            continue
        action = next(a for a in history.actions if a["id"] == step["action_id"])
        if action["action"] != "NODE_RECOVER":
            continue
        mine = [p for p in history.proofs if p["action_id"] == action["id"] and not p["waived"]]
        if not any(p["at_us"] <= step["submitted_us"] for p in mine):
            yield f"{history.names[action['node_id']]}: a copy was made without a proof"


def _acted_while_frozen(history: History) -> Iterator[str]:
    times = [
        (f"{table}.{column}", row[column])
        for table, column, rows in (
            ("decisions", "at_us", history.decisions),
            ("events", "at_us", history.events),
            ("steps", "intent_us", history.steps),
            ("steps", "submitted_us", history.steps),
            ("steps", "ended_us", history.steps),
        )
        for row in rows
        if row[column] is not None
    ]
    for deed in history.frozen():
        for what, at_us in times:
            if deed.at_us + 100_000 < at_us < deed.end_us:
                yield f"{what} at {at_us} while the engine was stopped"


def _acted_before_resettled(history: History) -> Iterator[str]:
    """After a start, or a freeze that outlasted the lease, a verdict needs `fall` fresh looks."""
    lease_us = history.here.lease * SECOND
    wakes = [e["started_us"] for e in history.engines]
    wakes += [d.end_us for d in history.frozen() if d.end_us - d.at_us > lease_us]
    least_us = (history.fall - 1) * history.interval_s * 0.85 * SECOND
    for one in history.decisions:
        inputs = json.loads(one["inputs"])
        if one["kind"] != "recover" or "mark" in inputs["problem"] or _requested(history, one):
            continue
        for wake_us in wakes:
            if wake_us < one["at_us"] < wake_us + least_us:
                yield (
                    f"{history.names[one['node_id']]}: recovered {(one['at_us'] - wake_us) / 1e6:.2f}"
                    f" s after waking, {inputs}"
                )


def _requested(history: History, decision: sqlite3.Row) -> bool:
    return any(
        a["cause"] == "RPC Request" and a["incident_id"] == decision["incident_id"]
        for a in history.recoveries
    )


def _in_flight(history: History) -> Iterator[str]:
    spans = history.spans()
    for began, _, action in spans:
        under_way = [a for b, e, a in spans if b <= began < e]
        if len(under_way) > history.total_in_flight:
            yield f"{len(under_way)} recoveries at once in all"
        mine = [a for a in under_way if a["cluster_id"] == action["cluster_id"]]
        if len(mine) > history.max_in_flight:
            yield f"{len(mine)} recoveries at once in cluster {action['cluster_id']}"
        same = [a for a in under_way if a["node_id"] == action["node_id"]]
        if len(same) > 1:
            yield f"{len(same)} recoveries at once of {history.names[action['node_id']]}"


def _budget(history: History) -> Iterator[str]:
    """No window of time holds more admissions than a full bucket and what flows into it."""
    times = sorted(began for began, _, _ in history.spans())
    for first, begin_us in enumerate(times):
        for last in range(first, len(times)):
            window_s = (times[last] - begin_us) / SECOND
            if last - first + 1 > history.burst + window_s * history.per_hour / 3600 + 1e-6:
                yield f"{last - first + 1} admissions in {window_s:.2f} s"
                return


def _failure_without_incident(history: History) -> Iterator[str]:
    """Whatever was believed unhealthy has an incident around that moment."""
    for event in history.events:
        if event["action"] != "HEALTH" or event["status"] != "unhealthy":
            continue
        mine = [i for i in history.incidents if i["node_id"] == event["oid"]]
        at_us = event["at_us"]
        near = 10 * SECOND  # a busy machine lies between what is believed and what is decided
        if not any(
            i["opened_us"] <= at_us + near and (i["ended_us"] or 2**62) >= at_us - near
            for i in mine
        ) and not any(i["state"] == "exhausted" and i["opened_us"] <= at_us for i in mine):
            yield f"{event['oname']}: unhealthy at {at_us} without an incident"


def _untold(history: History) -> Iterator[str]:
    """Every change of an incident has one message per notifier, and it arrived, signed."""
    messages: dict[int, list[sqlite3.Row]] = {}
    for row in history.here.rows("select * from outbox where notifier = 'hook'"):
        messages.setdefault(row["event_seq"], []).append(row)
    yield from history.receiver.forged
    opened: set[str] = set()
    for event in history.events:
        if event["action"] != "INCIDENT":
            continue
        mine = messages.get(event["seq"], [])
        # Going back to `open` for another attempt is no news.
        again = event["status"] == "open" and event["incident_id"] in opened
        opened.add(event["incident_id"])
        if len(mine) != 1 and not (again and not mine):
            yield f"{event['oname']} {event['status']}: {len(mine)} messages"
        for message in mine:
            if message["state"] != "accepted":
                yield f"{event['oname']} {event['status']}: {message['state']}, {message['last_error']}"
            elif message["id"] not in history.receiver.accepted:
                yield f"{event['oname']} {event['status']}: said to be accepted, never arrived"
    states: dict[str, list[str]] = {}
    for event in history.events:
        if event["action"] == "INCIDENT":
            states.setdefault(event["incident_id"], []).append(event["status"])
    for incident in history.incidents:
        told = states.get(incident["id"], [])
        if told[:1] != ["open"] or told[-1] != incident["state"]:
            yield f"incident of {incident['node_name']} is {incident['state']}, told: {told}"


def _overtaken(history: History) -> Iterator[str]:
    yield from overtaken(history.receiver.news, history.incidents)


def _false_hold(history: History) -> Iterator[str]:
    """Each stored hold names a reason that was true, by our own computation."""
    for one in history.decisions:
        if one["kind"] != "hold":
            continue
        numbers = json.loads(one["numbers"])
        truth = TRUTHS.get(one["reason"])
        if truth is None:
            yield f"held for {one['reason']!r}, which nothing here could cause: {numbers}"
        elif not truth(history, one, numbers):
            yield f"{history.names[one['node_id']]} held for {one['reason']}, untrue: {numbers}"


def _recomputes(history: History) -> Iterator[str]:
    """Every decision comes to the same once more, from its row alone."""
    for one in history.decisions:
        row = {**dict(one), "numbers": json.loads(one["numbers"])}
        found = recheck(stored({**row, "inputs": json.loads(one["inputs"])}))
        if not isinstance(found, Agreement):
            yield f"decision {one['seq']} ({one['kind']} {one['reason']}): {found}"


# --- was it true? ------------------------------------------------------------------------------

WITHOUT_POLICY = without_policy(60.0).recovery.retry.attempts
Truth = Callable[[History, sqlite3.Row, dict[str, object]], bool]


def _paused(kind: str) -> Truth:
    def truth(history: History, one: sqlite3.Row, numbers: dict[str, object]) -> bool:
        at_us = one["at_us"]
        return any(
            p["kind"] == kind
            and p["starts_us"] <= at_us
            and at_us < (p["expires_us"] or 2**62)
            and at_us <= (p["lifted_us"] or 2**62)
            and (p["scope"] == "all" or p["target_id"] in {one["node_id"], one["cluster_id"]})
            for p in history.pauses
        )

    return truth


def _stormy(history: History, one: sqlite3.Row, numbers: dict[str, object]) -> bool:
    """The threshold is one that some version of the policy gives, and so many were sick or doubted."""
    capacity = int(str(numbers["capacity"]))
    allowed = {max(1, math.ceil(capacity * share / 100)) for share in (40, 60, 100)} | {2}
    threshold = int(str(numbers["threshold"]))
    return threshold in allowed and doubted_at(history, one) > threshold


def doubted_at(history: History, one: sqlite3.Row) -> int:
    """Count nodes of the cluster that were unhealthy, suspect or recovering around that moment.

    What is believed is written a moment before or after it is decided on, hence a window.
    """
    begin_us, end_us = one["at_us"] - 3 * SECOND, one["at_us"] + 3 * SECOND
    sick = set()
    last: dict[str, str] = {}
    for event in history.events:
        if event["cluster_id"] != one["cluster_id"] or event["action"] != "HEALTH":
            continue
        if event["at_us"] > end_us:
            break
        if event["at_us"] >= begin_us and event["status"] in {"suspect", "unhealthy"}:
            sick.add(event["oid"])
        if event["at_us"] <= one["at_us"]:
            if event["at_us"] >= begin_us and last.get(event["oid"]) in {"suspect", "unhealthy"}:
                sick.add(event["oid"])
            last[event["oid"]] = event["status"]
    sick |= {i for i, health in last.items() if health in {"suspect", "unhealthy"}}
    sick |= {
        a["node_id"]
        for b, e, a in history.spans()
        if a["cluster_id"] == one["cluster_id"] and b <= end_us and e >= begin_us
    }
    return len(sick)


def _cooling(history: History, one: sqlite3.Row, numbers: dict[str, object]) -> bool:
    """It was tried before, and not longer ago than the longest rest: each by the policy that it had."""
    return any(
        a["node_id"] == one["node_id"]
        and a["created_us"] <= one["at_us"]
        and one["at_us"] - (a["end_us"] or one["at_us"]) < _rest_s(a) * SECOND
        for a in history.recoveries
    )


def _rest_s(action: sqlite3.Row) -> float:
    """Return how long a node may rest after it; without a policy the first rest is a whole minute."""
    retry = json.loads(action["inputs"])["snapshot"]["recovery"]["retry"]
    return max(10.0, float(retry["backoff_s"]) + 1.0)


def _used_up(history: History, one: sqlite3.Row, numbers: dict[str, object]) -> bool:
    tried = [
        a
        for a in history.recoveries
        if a["node_id"] == one["node_id"] and a["created_us"] <= one["at_us"]
    ]
    # Where the policy is detached the default holds: then a request that was made gets three attempts.
    allowed = int(str(numbers["allowed"]))
    return allowed in (WITHOUT_POLICY, history.attempts) and len(tried) >= allowed


def _full(history: History, one: sqlite3.Row, numbers: dict[str, object]) -> bool:
    at_us = one["at_us"]
    under_way = [a for b, e, a in history.spans() if b <= at_us and e >= at_us]
    mine = [a for a in under_way if a["cluster_id"] == one["cluster_id"]]
    return len(mine) >= history.max_in_flight or len(under_way) >= history.total_in_flight


def _spent(history: History, one: sqlite3.Row, numbers: dict[str, object]) -> bool:
    """Had one more been admitted, some window would have held more than the budget."""
    times = sorted(b for b, _, _ in history.spans() if b <= one["at_us"])
    for count, begin_us in enumerate(reversed(times), start=2):
        window_s = (one["at_us"] - begin_us) / SECOND
        if count > history.burst + window_s * history.per_hour / 3600 - 0.05:
            return True
    return False


def _busy(history: History, one: sqlite3.Row, numbers: dict[str, object]) -> bool:
    return any(
        a["node_id"] == one["node_id"] and a["created_us"] <= one["at_us"] <= (a["end_us"] or 2**62)
        for a in history.actions
    )


def _disturbed(history: History, one: sqlite3.Row, numbers: dict[str, object]) -> bool:
    """Something that blinds had happened: a start, a freeze, a lock, harm to the prober, all stopped."""
    blinding = {
        "frozen", "engine down", "kill_engine", "restart_engine", "harm_prober", "lock_database",
        "freeze_engine", "storm", "stop_node", "pause_node", "edit_policy", "attach_policy",
    }  # fmt: skip
    long_us = 30 * SECOND
    starts = [(e["started_us"], e["started_us"]) for e in history.engines]
    spans = starts + [(d.at_us, d.end_us) for d in history.deeds if d.what in blinding]
    return any(b <= one["at_us"] <= e + long_us for b, e in spans)


TRUTHS: dict[str, Truth] = {
    "stopped": _paused("stop"),
    "maintenance": _paused("maintenance"),
    "storm": _stormy,
    "cooling-down": _cooling,
    "needs-human": _used_up,
    "in-flight": _full,
    "rate": _spent,
    "node-busy": _busy,
    "resettling": _disturbed,
    "blind": _disturbed,
    "dependency-lost": _disturbed,
}

RULES: tuple[Callable[[History], Iterator[str]], ...] = (
    _two_copies,
    _unexplained_copy,
    _act_before_intent,
    _acted_while_frozen,
    _acted_before_resettled,
    _in_flight,
    _budget,
    _failure_without_incident,
    _untold,
    _overtaken,
    _false_hold,
    _recomputes,
)

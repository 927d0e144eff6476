"""Reference of deciding: how checks end, what becomes of a node's health, what holds, what is done."""

from __future__ import annotations

from collections import defaultdict

from docs.pages.text import attribute_docs, code, join, table

from yaffle.core.health.check_codes import OUTCOMES
from yaffle.core.health.diagnosis import PROBLEMS, UNEXPLAINED
from yaffle.core.health.node_lifecycle import ANY, KEPT, NodeEvent
from yaffle.core.health.node_lifecycle import TABLE as LIFECYCLE
from yaffle.core.health.transitions import TABLE, HealthEvent
from yaffle.core.planning.guards import GUARDS
from yaffle.core.recovery.ladder import TABLE as LADDER
from yaffle.core.recovery.ladder import End, Onward, Result, Stage, path_of
from yaffle.model.health import Health, NodeStatus
from yaffle.model.incident import HoldReason
from yaffle.model.policy import (
    Evidence,
    FencingKind,
    Limits,
    Recovery,
    RecoveryAction,
    RecoveryMode,
    Retry,
    RungKind,
    Threshold,
    WhenExceeded,
)

HEALTHS = {
    Health.INITIALIZING: "Just made, rebuilt or started; not judged yet.",
    Health.HEALTHY: "Every vote that counts has risen.",
    Health.SUSPECT: "Something fails, but not long enough for a verdict.",
    Health.UNHEALTHY: "The recovery conditional is met. The planner decides.",
    Health.UNKNOWN: "It could not be asked. Never a reason to act.",
}


def outcomes() -> str:
    """Every way in which a check can end, and the problems that they are called."""
    rows = [
        (
            code(row.code),
            row.outcome,
            "yes" if row.answered else "no",
            "yes" if row.connection_error else "",
            row.word,
            row.sentence,
        )
        for row in OUTCOMES.values()
    ]
    return join(
        "# Outcomes of a check",
        'Each check ends in one row. `unknown` means "could not ask": it never counts as a pass and\n'
        "never as a failure. *Answered* says whether anything answered at all; a refused connection is\n"
        "an answer, silence is not. A *connection error* is unknown where the policy says\n"
        "`poll_url_conn_error_as_unhealthy: false`.",
        table(("code", "outcome", "answered", "connection error", "word", "meaning"), rows),
        "## Problems",
        "What an unhealthy node has is the first row that matches. The code is the incident's `cause`.",
        table(
            ("code", "sentence"),
            [(code(p.code), p.sentence) for p in (*PROBLEMS, UNEXPLAINED)],
        ),
    )


def health() -> str:
    """The five states of its health and every move, and what sets its status."""
    return join(
        "# Health and status of a node",
        table(("state", "meaning"), [(code(h), HEALTHS[h]) for h in Health]),
        "## Events",
        "What the votes of all detection modes came to, after rise, fall and grace.",
        table(
            ("event", "meaning"),
            [(code(e), attribute_docs(HealthEvent)[e.name]) for e in HealthEvent],
        ),
        "## Moves",
        _drawing(),
        table(
            ("from", *(e.value for e in HealthEvent)),
            [(code(h), *(TABLE[h, e].value for e in HealthEvent)) for h in Health],
        ),
        "The drawing and the table are made from `yaffle.core.health.transitions.TABLE`.",
        "## Status",
        "What clients of Senlin see. Each change of it is a row of this table, which is made from\n"
        "`yaffle.core.health.node_lifecycle.TABLE`.",
        table(("event", "meaning", "the status becomes", "from"), list(map(_event, LIFECYCLE))),
        "*At rest*: ERROR without a resource; WARNING where it is unhealthy, marked, or not running\n"
        "by somebody's wish; else ACTIVE.",
    )


def _event(event: NodeEvent) -> tuple[str, ...]:
    rule = LIFECYCLE[event]
    every = {ANY: "any", KEPT: f"any but {NodeStatus.DELETING}"}
    leaves = every.get(rule.leaves) or ", ".join(s for s in NodeStatus if s in rule.leaves)
    meaning = attribute_docs(NodeEvent)[event.name]
    return code(event), meaning, rule.becomes or "*at rest*", leaves


def _drawing() -> str:
    arrows: dict[tuple[Health, Health], list[str]] = defaultdict(list)
    for (before, event), after in TABLE.items():
        if event not in {HealthEvent.MARKED, HealthEvent.RESTARTED} and before is not after:
            arrows[before, after].append(event.value)
    lines = ["stateDiagram-v2", f"    [*] --> {Health.INITIALIZING}"]
    lines += [
        f"    {before} --> {after}: {', '.join(events)}"
        for (before, after), events in sorted(arrows.items())
    ]
    lines += [
        f"    note right of {Health.UNHEALTHY}: marked leads here from every state",
        f"    note right of {Health.INITIALIZING}: restarted leads here from every state",
    ]
    return "```mermaid\n" + "\n".join(lines) + "\n```"


def guards() -> str:
    """The table of guards and every reason to hold."""
    rows = [
        (number, reason_link(guard.reason), "yes" if guard.by_request else "no", "planner")
        for number, guard in enumerate(GUARDS, 1)
    ]
    others = [r for r in HoldReason if r not in {b.reason for b in GUARDS}]
    rows += [
        (len(GUARDS) + number, reason_link(reason), "no", "admission, with the shared budgets")
        for number, reason in enumerate(others, 1)
    ]
    return join(
        "# Guards and reasons to hold",
        "The rows are asked in this order. The first that holds gives the reason. *Lifted by a\n"
        "request*: `yaffle node recover NODE` goes past it for that node.",
        table(("order", "reason", "lifted by a request", "asked by"), rows),
        "`in-flight` is asked twice: by the planner for the cluster (`limits.max_in_flight`), and by\n"
        "admission for the shared budgets. Each reason has its page in the\n"
        "[runbook](../runbook/README.md).",
    )


def reason_link(reason: HoldReason) -> str:
    """Return the reason with a link to its page."""
    return f"[`{reason.value}`](../runbook/{reason.value}.md)"


def ladder() -> str:
    """The stages of a recovery, and where each result leads."""
    stages, results, ends = attribute_docs(Stage), attribute_docs(Result), attribute_docs(End)
    moves = [
        (code(stage), code(result), _move(move))
        for (stage, result), move in LADDER.items()
        if result is not Result.SUPERSEDED
    ]
    return join(
        "# The recovery ladder",
        "A policy's `actions` are the rungs. Each rung walks a path of stages.",
        table(("rung", "path"), _paths()),
        "EVIDENCE comes only on the first rung, and only if the policy asks for it.",
        "## Results",
        table(("stage", "result", "leads to"), moves),
        f"Every stage may also come to `{Result.SUPERSEDED}`: a user's action took the node over, and\n"
        "the recovery ends.",
        "## Words",
        table(
            ("word", "meaning"),
            [
                (code(member), docs[member.name])
                for kind, docs in ((Stage, stages), (Result, results), (End, ends))
                for member in kind
                if member.name in docs
            ],
        ),
    )


def _move(move: Onward | End) -> str:
    match move:
        case Onward.NEXT_STAGE:
            return "the next stage"
        case Onward.NEXT_RUNG:
            return "the next rung; after the last one the end `exhausted`"
        case _:
            return f"the end {code(move)}"


def _paths() -> list[tuple[str, str]]:
    shapes = (
        ("RECREATE", RecoveryAction(name="RECREATE"), ()),
        ("RECREATE with fencing", RecoveryAction(name="RECREATE"), (FencingKind.COMPUTE,)),
        ("in place: REBOOT, REBUILD, START", RecoveryAction(name="REBOOT", in_place=True), ()),
        (
            "a workflow that the operator has not declared `in_place`",
            RecoveryAction(name="w", kind=RungKind.COMMAND),
            (FencingKind.COMPUTE,),
        ),
    )
    return [
        (name, " → ".join(s.name for s in path_of(action, _recovery(action, fencing), first=True)))
        for name, action, fencing in shapes
    ]


def _recovery(action: RecoveryAction, fencing: tuple[FencingKind, ...]) -> Recovery:
    return Recovery(
        mode=RecoveryMode.RECOVER,
        actions=(action,),
        fencing=fencing,
        node_delete_timeout_s=20,
        node_force_recreate=False,
        limits=Limits(
            max_unhealthy=Threshold(percent=40),
            when_exceeded=WhenExceeded.HOLD,
            max_in_flight=2,
            domain=None,
        ),
        retry=Retry(attempts=3, backoff_s=60, max_backoff_s=3600, stable_after_s=600),
        evidence=Evidence(console_log=True, timeout_s=30),
    )

"""Reference of what is told: incidents, notifications, events, metrics, exit codes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from docs.pages.text import code, first_sentence, join, table

import yaffle
from yaffle.cli.exit_codes import MEANING
from yaffle.engine.commands.imports import EVENTS as IMPORTED
from yaffle.engine.detection.host_watcher import CHANGED
from yaffle.engine.incidents.host_failure import RECORDED
from yaffle.engine.incidents.lifecycle import ATTEMPT_FAILED, ENDED, LEVELS, TOPICS
from yaffle.engine.notified_failures import FOLLOWED
from yaffle.engine.runtime.metrics import Metrics
from yaffle.engine.steps.reserved_host import OPENED
from yaffle.model.action import ActionKind
from yaffle.model.incident import IncidentState
from yaffle.store.receivers import EXPIRED

SOURCE = Path(yaffle.__file__).parent

STATES = {
    IncidentState.OPEN: "The node was judged unhealthy, or an attempt failed and others are left.",
    IncidentState.HELD: "A guard holds the node; `hold_reason` and `hold_numbers` say which and why.",
    IncidentState.RECOVERING: "A recovery was admitted.",
    IncidentState.RECOVERED: "A step of the ladder was verified.",
    IncidentState.ALREADY_HEALTHY: "It got well by itself, or was found well just before the act.",
    IncidentState.EXHAUSTED: "The retry budget is used up: a person is needed.",
    IncidentState.SUPERSEDED: "A user's action took the node over, or somebody wants it as it is.",
}


def incidents() -> str:
    """How an incident stands, and whom that is told."""
    rows = [
        (code(s), "yes" if s in ENDED else "", code(TOPICS[s]), LEVELS[s], STATES[s])
        for s in IncidentState
    ]
    return join(
        "# Incidents and notifications",
        "Every change of an incident is one event and one message for each notifier, written in the\n"
        "same transaction. A node has at most one open incident, and a host as well. An incident that\n"
        f"is `open` again because an attempt failed and others are left is told as\n"
        f"{code(ATTEMPT_FAILED)}; one that is so because nobody could be asked, or nothing is certain\n"
        "any more, is no news.",
        table(("state", "ends it", "notification topic", "event level", "meaning"), rows),
        "## Of a host",
        "Nodes that fail with their host have an incident each, whose `parent_id` names that of the\n"
        "host: `node` is empty there, `node_name` is `host NAME`, `cause` is `host-lost` or\n"
        "`host-unclear`. It opens with the first of them and ends with the last, as the worst of them\n"
        "ended. The notifiers are told of the host; of its nodes only who needs a human. Only who may\n"
        "see all projects sees it. Why: [Hosts](../explanation/hosts.md).\n"
        "\n"
        "A host in quarantine has an incident besides, with the cause `host-quarantined` and no parts:\n"
        "`held` until the old copies of what was moved off it are proved gone\n"
        "([what to do](../runbook/host-quarantined.md)).",
        "## The message",
        'A webhook gets `{"id", "topic", "at", "attempt", "sequence", "data"}`. `id` stays the same on\n'
        "every attempt, `sequence` rises within an incident. `at` is ISO 8601, UTC. "
        "The fields of `data`:",
        table(("field", "type"), _body_fields()),
        "`hold_reason` and `hold_numbers` are there when the change is about a hold. How to check the\n"
        "signature: [Receive webhooks](../howto/receive-webhooks.md).",
    )


def _body_fields() -> list[tuple[str, str]]:
    return [
        ("`incident`, `node`, `cluster`", "ids"),
        ("`node_name`, `cluster_name`", "names"),
        ("`parent`", "id of the incident of the host that the node failed with; or empty"),
        ("`state`", "a state of the table above"),
        ("`cause`", "code of a [problem](outcomes.md#problems)"),
        ("`reason`", "one line for a person"),
        ("`opened_us`, `at_us`", "µs since the epoch, UTC"),
        ("`hold_reason`, `hold_numbers`", "a [reason](guards.md) and its numbers"),
    ]


def metrics() -> str:
    """Every metric of `/metrics`."""
    rows = []
    for found in vars(Metrics()).values():
        for family in found.collect() if hasattr(found, "_labelnames") else ():
            name = family.name + ("_total" if family.type == "counter" else "")
            labels = ", ".join(code(label) for label in found._labelnames)  # noqa: SLF001
            rows.append((code(name), family.type, labels, family.documentation))
    return join(
        "# Metrics",
        "Served as Prometheus text at `/metrics`. Labels are closed lists of words; a node is never a\n"
        "label.",
        table(("metric", "type", "labels", "meaning"), sorted(rows)),
    )


def events() -> str:
    """Every kind of event."""
    rows = sorted(set(_event_actions()))
    return join(
        "# Events",
        "Every change is an event: who, what, when and why. Times are µs since the epoch, UTC.",
        table(("event", "about"), [(code(name), about) for name, about in rows]),
        "Levels are 20 (info), 30 (warning), 40 (error) and 50 (critical). Incidents and their levels:\n"
        "[Incidents](incidents.md).",
    )


def _event_actions() -> Iterator[tuple[str, str]]:
    yield from ((action, about.lower()) for about, action in IMPORTED.values())
    yield EXPIRED, "receiver"
    yield from (
        (action, "host") for action in (CHANGED, RECORDED, f"{RECORDED}_DISCARD", FOLLOWED, OPENED)
    )
    for verb in ("CREATE", "UPDATE", "DELETE"):
        yield from ((f"SEGMENT_{verb}", "segment"), (f"SEGMENT_HOST_{verb}", "host"))
    for path in sorted((SOURCE / "engine").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call):
                yield from _of_call(call)


def _of_call(call: ast.Call) -> Iterator[tuple[str, str]]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "event" and len(call.args) > 4:
        about = _text(call.args[1]) or "a pause"
        action = _text(call.args[4])
        if action:
            yield action, about.lower()
        elif isinstance(call.args[4], ast.JoinedStr):
            # The kind of pause is put before _BEGIN.
            yield from ((f"{kind}_BEGIN", "pause") for kind in ("MAINTENANCE", "STOP"))
    if name in {"_change_binding", "_change"} and len(call.args) > 3 and _text(call.args[3]):
        yield _text(call.args[3]) or "", "cluster"
    if name in {"node_event", "append"}:
        action = next((_text(k.value) for k in call.keywords if k.arg == "action"), None)
        if action:
            yield action, "node"


def _text(node: ast.expr) -> str | None:
    """Return a word that stands in the source, or the kind of action that is named there."""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) == ActionKind.__name__:
        return ActionKind[node.attr].value
    return str(node.value) if isinstance(node, ast.Constant) else None


def exit_codes() -> str:
    """What `yaffle` ends with."""
    rows = [(c.value, code(c.name), first_sentence(text)) for c, text in MEANING.items()]
    return join(
        "# Exit codes",
        "Every command of `yaffle` ends with one of these.",
        table(("code", "name", "meaning"), rows),
    )

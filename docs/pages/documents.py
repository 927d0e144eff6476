"""Reference of policy documents: every key with its versions, bounds and defaults; every hazard."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from enum import StrEnum
from importlib.metadata import entry_points
from typing import Final

from docs.pages.text import code, join, table
from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from yaffle.policy import VERSIONS, parse_document
from yaffle.policy.arithmetic import __doc__ as arithmetic_doc
from yaffle.policy.hazards import HAZARDS, Level
from yaffle.policy.schema import SHAPES, SINCE_1_3, WORDS_SINCE_1_3
from yaffle.policy.settings import DEFAULT_SETTINGS
from yaffle.policy.templates import ALIASES, NAMES
from yaffle.policy.urls import EXPANSIONS

Place = tuple[str, ...]

WORDS: Final[dict[str, str]] = {
    "type": "`senlin.policy.health`.",
    "version": "1.0, 1.1, 1.2 or 1.3.",
    "name": "A name for the policy.",
    "description": "A text for people.",
    "properties": "The two parts: `detection` and `recovery`.",
    "properties.detection": "How a failure is found.",
    "properties.recovery": "How a failure is healed.",
    "detection.interval": "Seconds between two checks of a node; up to 10 % early or late.",
    "detection.node_update_timeout": "Grace: a node that was made or changed is not judged for so long.",
    "detection.recovery_conditional": "ANY_FAILED: one failing mode suffices. ALL_FAILED: all must fail.",
    "detection.rise": "Passes in a row before a mode counts as up.",
    "detection.fall": "Fails in a row before a mode counts as down.",
    "detection.detection_modes": "The questions that are asked. Required; 1 to 16.",
    "detection.reference_targets": "`host:port` or URLs that answer when our own network works.",
    "detection_modes.type": "What is asked. Required.",
    "detection_modes.options": "For NODE_STATUS_POLL_URL only.",
    "options.poll_url": "The URL. Required for NODE_STATUS_POLL_URL.",
    "options.poll_url_ssl_verify": "Whether the certificate must verify.",
    "options.poll_url_conn_error_as_unhealthy": "If false, a connection error is unknown, not a failure.",
    "options.poll_url_healthy_response": (
        "Regular expression (RE2) searched in the body. Empty: a 2xx answer passes, and an"
        " `application/health+json` body decides."
    ),
    "options.poll_url_retry_limit": "Attempts in one check, the first included.",
    "options.poll_url_retry_interval": "Seconds between two attempts.",
    "options.poll_url_timeout": "Seconds for one attempt.",
    "options.poll_url_keep_alive": "Keep the connection. By default each check opens a new one.",
    "recovery.mode": "`observe`: decide and record, but do nothing.",
    "recovery.actions": "The ladder: tried in order, each verified. Up to 16. Empty or absent: RECREATE.",
    "recovery.fencing": "What is fenced before a second copy may start.",
    "recovery.node_delete_timeout": "Seconds for the confirmed deletion before RECREATE creates.",
    "recovery.node_force_recreate": "Your consent to create although the old copy is not proved gone.",
    "recovery.evidence": "Capture what the failed node can still tell, before it is touched.",
    "recovery.snapshot": "Stored. Refused at attach if the profile takes no snapshots; none here does.",
    "recovery.limits": "The brakes of this cluster.",
    "recovery.retry": "How often the same node is tried.",
    "actions.name": "REBOOT, REBUILD, RECREATE, another operation of the profile, or a workflow's name.",
    "actions.type": "Absent: an operation. Else the kind of workflow.",
    "actions.params": "Parameters; checked against the operation's. May hold templates.",
    "actions.timeout": "Seconds for the act and its verification; `rise` looks are taken in any case.",
    "actions.in_place": (
        "Workflows only. Accepted. Whether a workflow needs a fence is the operator's word in the"
        " driver's settings; the worst case counts one."
    ),
    "evidence.console_log": "Whether the log is taken. If false, no evidence is.",
    "evidence.timeout": "Seconds; without evidence in time the recovery goes on.",
    "snapshot.take": "See `snapshot`.",
    "snapshot.restore": "See `snapshot`.",
    "snapshot.timeout": "See `snapshot`.",
    "limits.max_unhealthy": "Storm brake: a number of nodes or a share of the desired capacity.",
    "limits.when_exceeded": "`hold` every node, or heal one at a time (`slow`).",
    "limits.max_in_flight": "Recoveries of this cluster at once.",
    "limits.domain": "Node attribute that names the failure domain; each domain has its own storm brake.",
    "retry.attempts": "Tries before a person is needed.",
    "retry.backoff": "Seconds of rest after the first try; doubled after each.",
    "retry.max_backoff": "Longest rest.",
    "retry.stable_after": "Seconds of health after which earlier tries are forgotten.",
}


def policy_document() -> str:
    """Every key by its place."""
    parts = [
        join(f"## {_title(where)}", table(("key", "since", "value", "default", "meaning"), rows))
        for where, rows in ((where, _rows(where)) for where in SHAPES)
    ]
    return join(
        "# Policy document",
        f"`senlin.policy.health`, versions {', '.join(VERSIONS)}. YAML or JSON. Durations are seconds.\n"
        "Keys marked 1.3 are refused in older documents, and the message says so. *Default* shows\n"
        "`1.0-1.2 / 1.3` where they differ; defaults are those beside a default `interval`.",
        f"At most {DEFAULT_SETTINGS.max_bytes // 1024} KiB, {DEFAULT_SETTINGS.max_depth} levels and"
        f" {DEFAULT_SETTINGS.max_values:,} values.",
        *parts,
        "## Values that need 1.3",
        table(("key", "value"), sorted((code(w[-1]), code(v)) for w, v in WORDS_SINCE_1_3)),
        "LIFECYCLE_EVENTS beside other modes needs 1.3.",
        "## What is carried out",
        f"Drivers that come with Yaffle carry out these modes: {_served('detectors')};\n"
        f"this fencing: {_served('fencers')}; these workflows: {_served('workflows')}.\n"
        "The other values are words of the document that no driver here carries out yet. A policy that\n"
        "needs one can be stored; attaching it is refused, and the message names what is missing.",
        "## Expansions and templates",
        "In `poll_url`: " + ", ".join(code("{" + name + "}") for name in EXPANSIONS) + ".",
        "In `actions.params`, quoted: "
        + ", ".join(code("{{ " + name + " }}") for name in (*NAMES, *ALIASES))
        + " and `{{ node.attributes.KEY }}`.\nNothing is evaluated.",
        "## Older spellings",
        "`poll_url_conn_error_as_unhealty` and `_unheathy` are accepted with a warning. In 1.0 and 1.1\n"
        "`detection: {type: …, options: {interval: …}}` is accepted instead of `detection_modes`.",
        "Combinations that are refused: [Hazards](hazards.md).",
    )


def _served(port: str) -> str:
    names = (p.name for p in entry_points(group=f"yaffle.{port}") if p.value.startswith("yaffle."))
    return ", ".join(map(code, sorted(names)))


def _title(where: Place) -> str:
    return code(".".join(where)) if where else "The document"


def _rows(where: Place) -> list[tuple[str, str, str, str, str]]:
    return [
        (
            code(key),
            "1.3" if (*where, key) in SINCE_1_3 or _within_new(where) else "1.0",
            _values(field),
            _default(where, key),
            WORDS[".".join((*where[-1:], key))],
        )
        for key, field in SHAPES[where].model_fields.items()
    ]


def _within_new(where: Place) -> bool:
    return any(where[: n + 1] in SINCE_1_3 for n in range(len(where)))


def _values(field: FieldInfo) -> str:
    for hint in field.metadata:
        if isinstance(hint, BeforeValidator):
            return _bounds(hint)
    text = str(field.annotation)
    for hint, shown in (("BeforeValidator", "list"), ("ActionSpec", "list"), ("ModeSpec", "list")):
        if hint in text:
            return shown
    return "mapping" if "Spec" in text or "dict" in text else "text"


def _bounds(hint: BeforeValidator) -> str:
    free = inspect.getclosurevars(hint.func).nonlocals
    if "kind" in free:
        kind = free["kind"]
        assert issubclass(kind, StrEnum)
        return ", ".join(member.value for member in kind)
    if "low" in free:
        return f"{free['low']:g} to {free['high']:g}"
    if "longest" in free:
        return _lengths(hint, free)
    return {
        "_check_flag": "true, false",
        "_check_interval": f"{DEFAULT_SETTINGS.interval_min_s:g} to 86400",
        "threshold": "`40%` or `3`",
        "_check_domain": "a name",
    }[getattr(hint.func, "__name__", "")]


def _lengths(hint: BeforeValidator, free: Mapping[str, object]) -> str:
    find = free.get("find")
    named = {
        "_poll_url_faults": "URL",
        "_pattern_faults": "RE2 pattern",
        "reference_faults": "address",
    }
    if find is not None:
        return named[getattr(find, "__name__", "")]
    return f"text, up to {free['longest']}"


def _full(version: str) -> dict[str, object]:
    extra: dict[str, object] = {"evidence": {}, "snapshot": {}} if version == "1.3" else {}
    modes = [{"type": "NODE_STATUS_POLL_URL", "options": {"poll_url": "http://{node_ip}/"}}]
    document = {
        "type": "senlin.policy.health",
        "version": version,
        "properties": {"detection": {"detection_modes": modes}, "recovery": extra},
    }
    return parse_document(document).document


def _default(where: Place, key: str) -> str:
    old, new = (_at(_full(version), where, key) for version in ("1.2", "1.3"))
    if (*where, key) in SINCE_1_3 or _within_new(where):
        return code(new)
    return code(new) if old == new else f"{code(old)} / {code(new)}"


def _at(value: object, where: Place, key: str) -> str:
    for part in where:
        value = value.get(part) if isinstance(value, dict) else None
        value = value[0] if isinstance(value, list) and value else value
    found = value.get(key, "") if isinstance(value, dict) else ""
    if isinstance(found, (dict, list)) or key in {"type", "version", "name", "poll_url"}:
        return ""
    return str(found).lower() if isinstance(found, bool) else str(found)


DANGERS: Final[dict[str, str]] = {
    "timeout-reaches-interval": "One attempt may take as long as the time between two checks.",
    "retries-exceed-interval": "All attempts of one check take longer than the time between two.",
    "grace-short": "The grace is shorter than `fall` checks.",
    "in-flight-over-threshold": "More recoveries at once than the storm brake lets be sick.",
    "cooldown-short": "The next try may come before a check has seen the result of the last one.",
    "backoff-order": "The longest rest is shorter than the first.",
    "stable-short": "Tries are forgotten so soon that a node could be recovered for ever.",
    "restore-without-take": "There is no snapshot to restore.",
    "force-recreate-unfenced": "`node_force_recreate` without fencing: two copies may run.",
    "no-storm-brake": "At 100 % the storm brake never holds.",
    "hair-trigger": "One failed check gets a node recreated.",
}

EFFECT: Final = {
    Level.REFUSED: "refused in 1.3; a warning in 1.0-1.2",
    Level.WARNING: "a warning",
    Level.INFO: "a warning",
}


def hazards() -> str:
    """Numbers that are each fine and together unsafe."""
    formulas = (arithmetic_doc or "").split("\n\n")[2].strip("\n")
    return join(
        "# Hazards",
        "Numbers that are each fine and together unsafe. `yaffle policy validate FILE` shows them with\n"
        "their place.",
        table(
            ("code", "effect", "danger"),
            [(code(h.code), EFFECT[h.level], DANGERS[h.code]) for h in HAZARDS],
        ),
        "## Worst case",
        "The same command prints how long a failure may take:",
        f"```text\n{formulas}\n```",
        "Grace, brakes, budgets, cool-downs, further tries, a wait for a free worker, and outages of\n"
        "the engine or its database come on top.",
    )

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

from yaffle.policy import KNOWN, POLICY_TYPE, VERSIONS, parse_document
from yaffle.policy.arithmetic import __doc__ as arithmetic_doc
from yaffle.policy.catalogue import family_of
from yaffle.policy.descriptions import WORDS
from yaffle.policy.document import GRAMMARS
from yaffle.policy.lint import HAZARDS, Level
from yaffle.policy.schema import SHAPES, SINCE_1_3, WORDS_SINCE_1_3
from yaffle.policy.settings import DEFAULT_SETTINGS
from yaffle.policy.templates import ALIASES, NAMES
from yaffle.policy.urls import EXPANSIONS
from yaffle.policy.versions import Grammar

Place = tuple[str, ...]


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


def cluster_policies() -> str:
    """Every key of the policies that decide over a cluster's size."""
    return join(
        "# Cluster policies",
        "What decides who goes, by how much and how fast when a cluster changes its size or its\n"
        "profile. YAML or JSON, with `type`, `version` and `properties` as in a\n"
        "[health policy](policy-document.md). Durations are whole seconds.\n"
        "How to use them: [Scale a cluster](../howto/scale-a-cluster.md).",
        *(join(_standing(kind), *_tables(kind)) for kind in KNOWN if kind != POLICY_TYPE),
    )


def _standing(kind: str) -> str:
    family, versions = family_of(kind), ", ".join(KNOWN[kind])
    many = "one to a cluster at most" if family.singleton else "any number to a cluster"
    return f"## {code(kind)}\n\nVersions: {versions}. Priority {family.priority}; {many}."


def _tables(kind: str) -> list[str]:
    grammar, newest = GRAMMARS[kind], KNOWN[kind][-1]
    return [
        join(
            f"### {code('.'.join((kind.rpartition('.')[2], *where[1:])))}",
            table(
                ("key", "since", "value", "default", "meaning"),
                [
                    (
                        code(key),
                        _since(grammar, (*where, key)),
                        _values(field),
                        _shown_default(field),
                        WORDS[".".join((where[-1], key))],
                    )
                    for key, field in grammar.shapes[where].model_fields.items()
                    if grammar.has((*where, key), newest)
                ],
            ),
        )
        for where in grammar.shapes
        if where
    ]


def _since(grammar: Grammar, where: Place) -> str:
    """Return the version that brought the key, or the mapping around it."""
    return max(grammar.since.get(where[:end], "1.0") for end in range(len(where) + 1))


def _shown_default(field: FieldInfo) -> str:
    if field.is_required() or field.default in (None, ""):
        return ""
    return code(str(field.default).lower() if isinstance(field.default, bool) else field.default)


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
    if "low" not in free and "high" in free:
        least = "-1, or 1" if "unlimited" in str(hint.func) else "above 0,"
        return f"{least} up to {_plain(free['high'])}"
    if "low" in free:
        return f"{_plain(free['low'])} to {_plain(free['high'])}"
    if "longest" in free:
        return _lengths(hint, free)
    return {
        "_check_flag": "true, false",
        "_check_interval": f"{DEFAULT_SETTINGS.interval_min_s:g} to 86400",
        "threshold": "`40%` or `3`",
        "_check_domain": "a name",
    }[getattr(hint.func, "__name__", "")]


def _plain(bound: object) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


def _lengths(hint: BeforeValidator, free: Mapping[str, object]) -> str:
    find = free.get("find")
    named = {
        "_poll_url_faults": "URL",
        "_hook_url_faults": "URL",
        "_pattern_faults": "RE2 pattern",
        "reference_faults": "address",
        "_pool_faults": "name",
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
    "in-flight-over-threshold": "More recoveries at once than the storm limit lets be unhealthy.",
    "cooldown-short": "The next attempt may come before a check has seen the result of the last one.",
    "backoff-order": "The longest rest is shorter than the first.",
    "stable-short": "Attempts are forgotten so soon that a node could be recovered for ever.",
    "restore-without-take": "There is no snapshot to restore.",
    "force-recreate-unfenced": "`node_force_recreate` without fencing: two copies may run.",
    "no-storm-limit": "At 100 % the storm limit never holds.",
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
        "Grace, guards, budgets, cool-downs, further attempts, a wait for a free worker, and outages of\n"
        "the engine or its database come on top.",
    )

"""Another project's ids through every door: each answer has to be the one for an id of nothing.

Every row of the table of rights is here, in a path or in a case of `BODIES`, or named as one that no
id is given to. So a route that is new and has no case fails the test that uses this.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping

import httpx

from yaffle.api.rights import OPEN, TABLE

OWN, V1, HA = "/yaffle/v1", "/v1", "/instance-ha/v1"
Ask = Callable[[str, str, object], httpx.Response]
"""Takes method, path and body, and asks as the attacker."""
Words = Mapping[str, str]
"""What a part of a path is called, and an id."""
Body = Callable[[Words, Words], object]
"""Takes the ids that are tried, and those of the attacker's own things."""
NAMES_NOTHING = {
    ("POST", f"{OWN}/policies/validate"),
    ("POST", f"{OWN}/outbox/redeliver"),
    ("POST", f"{OWN}/alerts/retry"),
    ("POST", f"{OWN}/stop"),
    ("DELETE", f"{OWN}/stop"),
    ("POST", f"{OWN}/import"),
    ("POST", f"{OWN}/sessions"),
    ("DELETE", f"{OWN}/sessions"),
    ("POST", f"{V1}/profiles"),
    ("POST", f"{V1}/profiles/validate"),
    ("POST", f"{V1}/policies"),
    ("POST", f"{V1}/policies/validate"),
    ("POST", f"{V1}/actions"),
    ("POST", f"{HA}/segments"),
    ("POST", f"{HA}/notifications"),
}
"""Neither path nor body has an id of ours, or nobody but administrators gets that far."""
BODIES: Mapping[tuple[str, str], tuple[Body, ...]] = {
    ("POST", f"{OWN}/maintenance"): (
        lambda w, _: {"scope": "node", "target": w["node"], "reason": "x"},
        lambda w, _: {"scope": "cluster", "target": w["cluster"], "reason": "x"},
    ),
    ("POST", f"{V1}/clusters"): (
        lambda w, _: {"cluster": {"name": "c", "profile_id": w["profile"]}},
    ),
    ("PATCH", f"{V1}/clusters/{{cluster}}"): (
        lambda w, _: {"cluster": {"profile_id": w["profile"]}},
    ),
    ("POST", f"{V1}/clusters/{{cluster}}/actions"): (
        lambda w, _: {"add_nodes": {"nodes": [w["node"]]}},
        lambda w, _: {"del_nodes": {"nodes": [w["node"]]}},
        lambda w, _: {"replace_nodes": {"nodes": {w["node"]: w["node"]}}},
        lambda w, _: {"policy_attach": {"policy_id": w["policy"]}},
        lambda w, _: {"policy_detach": {"policy_id": w["policy"]}},
        lambda w, _: {"policy_update": {"policy_id": w["policy"], "enabled": False}},
    ),
    ("POST", f"{V1}/nodes"): (
        lambda w, _: {"node": {"name": "n", "profile_id": w["profile"]}},
        lambda w, o: {
            "node": {"name": "n", "profile_id": o["profile"], "cluster_id": w["cluster"]}
        },
    ),
    ("POST", f"{V1}/nodes/adopt"): (lambda w, o: {"identity": w["thing"], "type": o["type"]},),
    ("POST", f"{V1}/nodes/adopt-preview"): (
        lambda w, o: {"identity": w["thing"], "type": o["type"]},
    ),
    ("POST", f"{V1}/receivers"): (
        lambda w, _: {
            "receiver": {
                "name": "r",
                "type": "webhook",
                "cluster_id": w["cluster"],
                "action": "CLUSTER_SCALE_OUT",
            }
        },
    ),
}
"""Ids in bodies; of a row with a path the path is the attacker's own."""
IN_PATH: Mapping[tuple[str, str], object] = {
    ("PUT", f"{OWN}/policies/{{policy}}"): {"text": "type: x"},
    ("POST", f"{OWN}/clusters/{{cluster}}/release"): {"reason": "x", "for_s": 1},
    ("POST", f"{OWN}/nodes/{{node}}/mark"): {"reason": "x"},
    ("POST", f"{OWN}/incidents/{{incident}}/acknowledge"): {},
    ("POST", f"{OWN}/hosts/{{host}}/failures"): {"proof": "x"},
    ("POST", f"{OWN}/hosts/{{host}}/fence"): {"reason": "x"},
    ("POST", f"{OWN}/hosts/{{host}}/unfence"): None,
    ("POST", f"{OWN}/alerts/{{alert}}/discard"): {"reason": "x"},
    ("PUT", f"{HA}/segments/{{segment}}"): {"segment": {"description": "x"}},
    ("POST", f"{HA}/segments/{{segment}}/hosts"): {"host": {}},
    ("PUT", f"{HA}/segments/{{segment}}/hosts/{{segment_host}}"): {"host": {"reserved": True}},
    ("PATCH", f"{V1}/profiles/{{profile}}"): {"profile": {"name": "x"}},
    ("PATCH", f"{V1}/policies/{{policy}}"): {"policy": {"name": "x"}},
    ("PATCH", f"{V1}/clusters/{{cluster}}"): {"cluster": {"name": "x"}},
    ("POST", f"{V1}/clusters/{{cluster}}/actions"): {"scale_out": {"count": 1}},
    ("POST", f"{V1}/clusters/{{cluster}}/ops"): {"reboot": {}},
    ("PATCH", f"{V1}/nodes/{{node}}"): {"node": {"name": "x"}},
    ("POST", f"{V1}/nodes/{{node}}/actions"): {"check": {}},
    ("POST", f"{V1}/nodes/{{node}}/ops"): {"reboot": {}},
    ("PATCH", f"{V1}/receivers/{{receiver}}"): {"receiver": {"name": "x"}},
    ("POST", f"{V1}/receivers/{{receiver}}/notify"): None,
    ("PATCH", f"{V1}/actions/{{action}}"): {"action": {"status": "CANCELLED"}},
}
"""What is sent to a path with an id in it; of every row that changes something, but deletions."""
QUERIES = (
    *(f"{OWN}/{plural}?cluster={{cluster}}" for plural in ("nodes", "incidents", "decisions")),
    *(f"{OWN}/{plural}?node={{node}}" for plural in ("events", "actions", "incidents")),
    f"{V1}/nodes?cluster_id={{cluster}}",
    f"{V1}/receivers?cluster_id={{cluster}}",
    f"{V1}/actions?target={{node}}",
    f"{V1}/events?cluster_id={{cluster}}",
    f"{V1}/events?oid={{node}}",
)
NAMED = re.compile(r"{(?!type|path)(\w+)(?::path)?}")


def rows() -> set[tuple[str, str]]:
    """Return what needs any right at all; a webhook's path is its own proof."""
    return {(m, path) for path, ms in TABLE.items() for m, needs in ms.items() if needs != OPEN}


def without_a_case() -> set[tuple[str, str]]:
    """Return the rows that change something and that nothing here is sent to."""
    changing = {row for row in rows() if row[0] != "GET"}
    paths = {row for row in changing if NAMED.search(row[1]) and row[0] != "DELETE"}
    rest = {row for row in changing if not NAMED.search(row[1])}
    return (paths - set(IN_PATH)) | (rest - set(BODIES) - NAMES_NOTHING)


def told_apart(ask: Ask, theirs: Words, own: Words) -> list[str]:
    """Return each request whose answer tells an id of theirs from an id of nothing."""
    found: list[str] = []
    nothing = {kind: str(uuid.uuid4()) for kind in theirs}

    def compare(method: str, path: str, body: Callable[[Words], object]) -> None:
        told = [
            _seen(ask(method, filled(path, words), body(words)), words)
            for words in (theirs, nothing)
        ]
        if told[0] != told[1] or (told[0][0] < 300 and method != "GET"):
            found.append(f"{method} {path} {json.dumps(body(theirs))}: {told[0]} | {told[1]}")

    for method, path in sorted(rows()):
        if NAMED.search(path):
            compare(method, path, lambda _, row=(method, path): IN_PATH.get(row))  # type: ignore[misc]
        for make in BODIES.get((method, path), ()):
            compare(method, filled(path, own), lambda words, make=make: make(words, own))  # type: ignore[misc]
    for path in QUERIES:
        compare("GET", path, lambda _: None)
    return found


def filled(path: str, words: Words) -> str:
    """Return a path with ids in its places."""
    path = path.replace("{path:path}", "name")
    return NAMED.sub(
        lambda m: words.get(m[1], m[0]), path.replace("{type}", words.get("type", "x"))
    )


def _seen(answer: httpx.Response, words: Words) -> tuple[int, str]:
    text = re.sub(r"req-[0-9a-f-]{36}", "REQUEST", answer.text)
    for kind, word in words.items():
        text = text.replace(word, f"<{kind}>").replace(word[:8], f"<{kind}>")
    return answer.status_code, text

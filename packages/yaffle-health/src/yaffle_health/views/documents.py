"""The JSON documents: the seed's, the IETF draft's and Spring Boot's, built from one `Health`.

Where the first two cannot agree (checks, notes, version) they are two documents; see ADR 0011.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Mapping, Sequence

from yaffle_health.model import Check, Health, Status

FORMAT_VERSION = "1.0"
"""Of the seed's response format: it moves when a field is added or removed, never with the service."""

Json = str | Sequence["Json"] | Mapping[str, "Json"]


def nova(health: Health) -> dict[str, Json]:
    """Seed 4: a check is an object under its name; `name:component_id` if it has a component.

    Of checks that come to the same key the later ones have `#2`, `#3` … behind it.
    """
    service = health.service
    notes: dict[str, Json] = {"host": service.host}
    if service.hostname is not None:
        notes["hostname"] = service.hostname
    return {
        "status": health.status.value,
        "version": FORMAT_VERSION,
        "serviceId": service.service_id,
        "description": service.description,
        "notes": notes,
        "checks": _by_key(health),
    }


def _by_key(health: Health) -> dict[str, dict[str, Json]]:
    found: dict[str, dict[str, Json]] = {}
    # Those without a component first: what else would have their key can be told by its componentId.
    for check in sorted(health.checks, key=lambda check: check.component_id is not None):
        element = _element(check)
        key = check.name
        if check.component_id is not None:
            key = f"{check.name}:{check.component_id}"
            element["componentId"] = check.component_id
        found[_free(key, found)] = element
    return found


def _free(key: str, taken: Container[str]) -> str:
    """Two checks may come to one key, as ("a:b", None) and ("a", "b"): none may hide the other."""
    numbered = (f"{key}#{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain((key,), numbered) if each not in taken)


def _element(check: Check) -> dict[str, Json]:
    element: dict[str, Json] = {
        "status": check.status.value,
        "time": check.time.isoformat(timespec="seconds"),
    }
    if check.status is not Status.PASS:
        element["output"] = check.output or "no reason was given"
    if check.expired:
        element["lastStatus"] = check.last_status.value
    return element


def ietf(health: Health) -> dict[str, Json]:
    """draft-06: a name has an array, one element for each component; `version` is the service's."""
    service = health.service
    notes: list[Json] = [f"host={service.host}"]
    if service.hostname is not None:
        notes.append(f"hostname={service.hostname}")
    checks: dict[str, list[Json]] = {}
    for check in health.checks:
        checks.setdefault(check.name, []).append(_ietf_element(check))
    document: dict[str, Json] = {
        "status": health.status.value,
        "serviceId": service.service_id,
        "description": service.description,
        "notes": notes,
        "checks": checks,
        "formatVersion": FORMAT_VERSION,
    }
    if service.release is not None:
        document["version"] = service.release
    if health.status is not Status.PASS:
        document["output"] = _summary(health)
    return document


def _ietf_element(check: Check) -> dict[str, Json]:
    element = _element(check) | {"componentType": check.component_type}
    if check.component_id is not None:
        element["componentId"] = check.component_id
    return element


def _summary(health: Health) -> str:
    sick = dict.fromkeys(check.name for check in health.checks if check.status is not Status.PASS)
    return "not passing: " + ", ".join(sick) if sick else "no check says why"


def spring(health: Health) -> dict[str, Json]:
    """Actuator knows no "warn": what still answers with 200 is UP, with the reason in its details."""
    components: dict[str, Json] = {}
    for key, element in _by_key(health).items():
        status = Status(str(element["status"]))
        components[key] = {"status": _up(status), "details": element}
    return {"status": _up(health.status), "components": components}


def _up(status: Status) -> str:
    return "DOWN" if status is Status.FAIL else "UP"

"""Reference of the HTTP interface, from its OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from docs.pages.text import code, first_sentence, join, table

from yaffle.api.app import build
from yaffle.api.app_context import PREFIX, AppContext
from yaffle.config import ServerSettings


def document() -> dict[str, Any]:
    """Return the OpenAPI document; the routes are described, never called."""
    nothing = cast("Any", None)
    parts = AppContext(
        commands=nothing,
        queries=nothing,
        why=nothing,
        facts=nothing,
        counted=nothing,
        doctor=nothing,
        vitals=nothing,
        server=ServerSettings(),
        state_dir=Path("/var/lib/yaffle"),
    )
    found: dict[str, Any] = build(parts).openapi()
    return found


def routes() -> str:
    """Every route: what it does, what it takes, what it answers."""
    described = document()
    parts = [
        join(
            f"## `{method.upper()} {path}`",
            first_sentence(operation.get("description") or operation.get("summary")),
            _parameters(operation),
            _body(operation, described),
            _answer(operation),
        )
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    return join(
        "# HTTP interface",
        f"Below `{PREFIX}`. Bodies and answers are JSON.\n"
        f"`GET {PREFIX}/openapi.json` is this page for programs.",
        "With `server.token_file`: `Authorization: Bearer TOKEN`; with `server.users_file`: HTTP basic."
        " Every answer has\n`X-Request-Id`.",
        "## Refusals",
        "Every refusal has one shape. " + _refusals(described),
        f"```json\n{json.dumps(described['components']['schemas']['Error']['example'], indent=2)}\n```",
        *parts,
    )


def _refusals(described: dict[str, Any]) -> str:
    for methods in described["paths"].values():
        for operation in methods.values():
            return str(operation["responses"]["default"]["description"]).removeprefix("Refused: ")
    return ""


def _parameters(operation: dict[str, Any]) -> str:
    rows = [
        (
            code(p["name"]),
            p["in"],
            "yes" if p.get("required") else "",
            p.get("description", ""),
        )
        for p in operation.get("parameters", ())
    ]
    return table(("parameter", "in", "required", "meaning"), rows) if rows else ""


def schema_of(operation: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the body that a route takes."""
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    return _resolved(schema, described)


def _body(operation: dict[str, Any], described: dict[str, Any]) -> str:
    body = operation.get("requestBody")
    if body is None:
        return ""
    schema = schema_of(operation, described)
    needed = set(schema.get("required", ()))
    rows = [
        (code(name), "yes" if name in needed else "", part.get("description", ""))
        for name, part in schema.get("properties", {}).items()
    ]
    example = next(iter(schema.get("examples", ())), None)
    return join(
        "Body" + ("" if body.get("required") else " (optional)") + ":",
        table(("key", "required", "meaning"), rows),
        f"```json\n{json.dumps(example)}\n```" if example is not None else "",
    )


def _resolved(schema: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    for option in (schema, *schema.get("anyOf", ())):
        if "$ref" in option:
            name = str(option["$ref"]).rpartition("/")[2]
            found: dict[str, Any] = described["components"]["schemas"][name]
            return found
    return schema


def _answer(operation: dict[str, Any]) -> str:
    return "\n\n".join(_answers(operation))


def _answers(operation: dict[str, Any]) -> Iterator[str]:
    for status, answer in operation["responses"].items():
        if not status.startswith("2"):
            continue
        kinds = [k for k, v in answer.get("content", {}).items()]
        examples = [content.get("example") for content in answer.get("content", {}).values()]
        # An example in words has no keys.
        keys = [code(key) for each in examples if isinstance(each, dict) for key in each]
        yield f"Answer: {status}" + (
            f", with {', '.join(keys)}." if keys else f", {', '.join(kinds)}." if kinds else "."
        )

"""The API's documentation as one page, made of the OpenAPI document, without scripts."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

STYLE: Final = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1f16; background: #fcfdfa }
h2 { border-bottom: 2px solid #7a9e3f; margin-top: 2.5rem }
h3 { margin: 1.5rem 0 .25rem; font-size: 1rem }
code, pre { font: .85rem/1.4 ui-monospace, monospace }
pre { background: #f0f3ea; padding: .75rem; overflow-x: auto }
.get { color: #2c6e49 } .post { color: #1d4e89 } .patch, .put { color: #9a6700 }
.delete { color: #b3261e }
table { border-collapse: collapse; font-size: .9rem } td, th { text-align: left; padding: .2rem .8rem
       .2rem 0; vertical-align: top }
summary { cursor: pointer }
"""
_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY: Final = f"default-src 'none'; style-src 'sha256-{_HASH}'; frame-ancestors 'none'"
"""The Content-Security-Policy of the page: this very style, and nothing else."""


def page(document: Mapping[str, Any]) -> str:
    """Return the page."""
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    index = "".join(f'<li><a href="#{_anchor(tag)}">{escape(tag)}</a></li>' for tag in groups)
    body = "".join(
        f'<h2 id="{_anchor(tag)}">{escape(tag)}</h2>{"".join(parts)}'
        for tag, parts in groups.items()
    )
    info = document["info"]
    about = "".join(f"<p>{escape(part)}</p>" for part in info["description"].split("\n\n"))
    title = f"{escape(info['title'])} {escape(info['version'])}: HTTP API"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f'<body><h1>{title}</h1>{about}<p>For programs: <a href="/openapi.json">/openapi.json</a>.'
        f"</p><ul>{index}</ul>{body}{_schemas(document)}</body></html>"
    )


def _anchor(tag: str) -> str:
    return "".join(char if char.isalnum() else "-" for char in tag)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    return "".join(
        (
            f'<h3><code><span class="{method}">{method.upper()}</span> {escape(path)}</code></h3>',
            f"<p>{escape(operation.get('description') or operation['summary'])}</p>",
            _parameters(operation.get("parameters", ())),
            *_body(operation.get("requestBody")),
            *_answers(operation["responses"]),
        )
    )


def _parameters(parameters: Any) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(p['name'])}</code></td><td>{escape(p['in'])}</td>"
        f"<td>{escape(p.get('description', ''))}</td></tr>"
        for p in parameters
        if p["in"] != "header"
    )
    return f"<table>{rows}</table>" if rows else ""


def _body(body: Mapping[str, Any] | None) -> Iterator[str]:
    for media, content in (body or {}).get("content", {}).items():
        for example in content.get("examples", {}).values():
            yield f"<pre>{_json(example['value'])}</pre>"
        yield _folded(f"Body ({media})", content.get("schema", {}))


def _answers(responses: Mapping[str, Any]) -> Iterator[str]:
    for status, answer in responses.items():
        if status == "default":
            continue
        yield f"<p>{escape(status)}: {escape(answer['description'])}</p>"
        for media, content in answer.get("content", {}).items():
            if "schema" in content:
                yield _folded(f"Answer ({media})", content["schema"])


def _schemas(document: Mapping[str, Any]) -> str:
    named = document["components"]["schemas"]
    return "<h2>Schemas</h2>" + "".join(
        _folded(name, schema) for name, schema in sorted(named.items())
    )


def _folded(title: str, schema: object) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{_json(schema)}</pre></details>"


def _json(value: object) -> str:
    return escape(json.dumps(value, indent=2, ensure_ascii=False, default=str))

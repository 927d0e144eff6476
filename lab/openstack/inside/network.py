"""A Neutron in which there is nothing: Nova asks one even for servers without networks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

_COLLECTION = re.compile(r"/v2\.0/([a-z-]+)")
_QUOTA = re.compile(r"/v2\.0/quotas/[^/]+")


def answer(method: str, path: str) -> tuple[str, object]:
    """Return status and document: every collection is empty, and nothing can be made."""
    if method == "GET" and path in {"", "/v2.0"}:
        link = {"rel": "self", "href": "/v2.0/"}
        return "200 OK", {"versions": [{"id": "v2.0", "status": "CURRENT", "links": [link]}]}
    if method == "GET" and _QUOTA.fullmatch(path):
        return "200 OK", {"quota": {}}
    collection = _COLLECTION.fullmatch(path)
    if method == "GET" and collection:
        return "200 OK", {collection[1].replace("-", "_"): []}
    message = "this lab has no networks"
    return "404 Not Found", {"NeutronError": {"type": "NotFound", "message": message, "detail": ""}}


def application(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterable[bytes]:
    """Answer one request."""
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    status, document = answer(environ["REQUEST_METHOD"], environ["PATH_INFO"].rstrip("/"))
    body = json.dumps(document).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response(status, headers)
    return [body]

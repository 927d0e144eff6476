"""Every documented example of a body, sent to its route: whoever copies one must not be refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.functional.api.live import POLICY, PREFIX, running

from docs.pages import http as page

NAMES = {
    "host": "compute1",
    "profile": "web",
    "policy": "web-health",
    "cluster": "web",
    "node": "web-1",
}
"""The examples' own names: those that come later use what the earlier ones have made."""
NOT_THERE = {"incident": "2f0f7d0c-7a3e-4d0c-8a7a-6f6f1c6c8b01", "alert": "3"}


def examples() -> list[tuple[str, str, Any]]:
    """Return method, path and example of each body, in the order of the document."""
    described = page.document()
    return [
        (method.upper(), path, example)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation
        for example in page.schema_of(operation, described).get("examples", ())
    ]


def test_every_example_is_accepted_by_its_route(tmp_path: Path) -> None:
    found = examples()
    assert len(found) > 8
    with running(tmp_path / "state") as live, live.client() as client:
        live.profile("web")
        live.policy("web-health", POLICY)
        live.cluster("web", "web", 1, "web-health")
        for method, path, example in found:
            place = path.format(**NAMES, **NOT_THERE)
            answer = client.request(method, place, json=example)
            told = f"{method} {place} {example}: {answer.text}"
            # Nothing is built without an engine, so a node may be busy; a body is judged before.
            fine = {409} if path.startswith(f"{PREFIX}/nodes") else set()
            # Nobody is told of hosts here.
            fine |= {409} if path.startswith(f"{PREFIX}/hosts") else set()
            fine |= {404} if path.endswith("/fence") else set()
            # No host is known.
            fine |= {404} if example.get("scope") == "host" else set()
            # It is not signed.
            fine |= {403} if path.endswith("/host-failures") else set()
            fine |= {404} if "{incident}" in path or "{alert}" in path else set()
            assert answer.is_success or answer.status_code in fine, told


def test_an_answer_in_words_is_not_listed_letter_by_letter() -> None:
    text = page.routes().partition("## `GET /metrics`")[2].partition("\n## ")[0]
    assert "Answer: 200, text/plain." in text

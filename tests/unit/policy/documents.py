"""Small documents for the policy tests: whole ones, built from the part a test is about."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from yaffle.errors import InvalidSpec
from yaffle.policy import ParsedPolicy, UnknownPolicyType, parse_document

STATUS = {"type": "NODE_STATUS_POLLING"}
URL = {"type": "NODE_STATUS_POLL_URL", "options": {"poll_url": "http://{nodename}/health"}}


def url_mode(**options: object) -> dict[str, Any]:
    """Return a POLL_URL mode with a usable URL and the options given."""
    return {"type": URL["type"], "options": {"poll_url": "http://{nodename}/health", **options}}


def document(
    version: object = "1.3",
    *,
    detection: dict[str, Any] | None = None,
    recovery: dict[str, Any] | None = None,
    modes: object = None,
    actions: object = None,
) -> dict[str, Any]:
    """Return a document that is accepted unless an argument makes it wrong."""
    found: dict[str, Any] = {
        "detection": {"detection_modes": [STATUS] if modes is None else modes, **(detection or {})},
        "recovery": {} if recovery is None else recovery,
    }
    if actions is not None:
        found["recovery"] = {**found["recovery"], "actions": actions}
    head = {"type": "senlin.policy.health", "version": version}
    return copy.deepcopy({**head, "properties": found})


def accepted(doc: object, **options: Any) -> ParsedPolicy:
    """Parse, and check that the full document means the same policy."""
    parsed = parse_document(doc, **options)
    again = parse_document(parsed.document, **options)
    assert again.policy == parsed.policy
    assert again.document == parsed.document
    return parsed


def problems(doc: object, **options: Any) -> tuple[str, ...]:
    """Parse a document that has to be refused; return what is wrong with it."""
    with pytest.raises((InvalidSpec, UnknownPolicyType)) as caught:
        parse_document(doc, **options)
    assert isinstance(caught.value, (InvalidSpec, UnknownPolicyType))
    return caught.value.problems

"""Policies over our own API: worst case in seconds, warnings, validation of a document."""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from yaffle.api import examples
from yaffle.api.app_context import AppContext
from yaffle.api.bodies import DocumentBody
from yaffle.api.dependencies import By, Word, answers
from yaffle.api.http.reply import Reply
from yaffle.policy import ParsedPolicy

VALID: Final = {
    "policy": {
        "valid": True,
        "type": "senlin.policy.health",
        "version": "1.3",
        "warnings": [],
        "arithmetic": examples.ARITHMETIC,
        "document": {},
    }
}


async def _parsed(parts: AppContext, body: DocumentBody) -> ParsedPolicy:
    # In a thread: a quarter of a megabyte of YAML would stop the loop for a second.
    if body.text is not None:
        return await asyncio.to_thread(parts.commands.parse_text, body.text, source=body.source)
    return await asyncio.to_thread(parts.commands.parse_document, body.document)


def policies(parts: AppContext) -> APIRouter:
    """Return the routes of policies."""
    router = APIRouter(prefix="/policies", tags=["policies"])

    @router.get("", responses=answers({"policies": [examples.POLICY]}))
    async def list_policies(by: By) -> Response:
        """List every policy, the oldest first."""
        return Reply({"policies": await parts.queries.policies(by.who())})

    @router.post("/validate", responses=answers(VALID))
    async def validate_policy(body: DocumentBody) -> Response:
        """Say what a document means and how long a failure may take, without storing anything."""
        found = await _parsed(parts, body)
        times = found.arithmetic
        return Reply(
            {
                "policy": {
                    "valid": True,
                    "type": found.type,
                    "version": found.policy.version,
                    "warnings": list(found.warnings),
                    "arithmetic": times and {**times.as_json(), "lines": list(times.lines())},
                    "document": found.document,
                }
            }
        )

    @router.get("/{policy}", responses=answers({"policy": examples.POLICY}))
    async def show_policy(policy: Word, by: By) -> Response:
        """Show one policy with its worst-case arithmetic."""
        return Reply({"policy": await parts.queries.policy(by.who(), policy)})

    @router.put("/{policy}", responses=answers({"policy": examples.POLICY}))
    async def replace_policy(policy: Word, body: DocumentBody, by: By) -> Response:
        """Replace a policy's document; running recoveries keep the one they began with."""
        await parts.commands.update_policy(
            policy, await _parsed(parts, body), source=body.text or "", by=by.who(body.by)
        )
        return Reply({"policy": await parts.queries.policy(by.who(), policy)})

    return router

"""Profiles and policies over HTTP."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from starlette.responses import Response

from yaffle.api import examples
from yaffle.api.asking import By, Word, answers, location
from yaffle.api.bodies import DocumentBody, PolicyBody, ProfileBody
from yaffle.api.parts import Parts
from yaffle.api.reply import Reply
from yaffle.policy import ParsedPolicy


def profiles(parts: Parts) -> APIRouter:
    """Return the routes of profiles."""
    router = APIRouter(prefix="/profiles", tags=["profiles"])

    @router.get("", responses=answers({"profiles": [examples.PROFILE]}))
    async def list_profiles(by: By) -> Response:
        """List every profile, the oldest first."""
        return Reply({"profiles": await parts.queries.profiles(by.who())})

    @router.post("", status_code=201, responses=answers({"profile": examples.PROFILE}, status=201))
    async def create_profile(body: ProfileBody, by: By) -> Response:
        """Create a profile after its driver has validated the properties."""
        ident = await parts.commands.create_profile(
            body.name, body.type, body.spec, who=by.who(body.by)
        )
        found = await parts.queries.profile(by.who(), ident)
        return Reply({"profile": found}, 201, location("profiles", ident))

    @router.get("/{profile}", responses=answers({"profile": examples.PROFILE}))
    async def show_profile(profile: Word, by: By) -> Response:
        """Show one profile."""
        return Reply({"profile": await parts.queries.profile(by.who(), profile)})

    @router.delete("/{profile}", status_code=204)
    async def delete_profile(profile: Word, by: By) -> Response:
        """Delete a profile that nothing uses."""
        await parts.commands.delete_profile(profile, who=by.who())
        return Response(status_code=204)

    return router


def policies(parts: Parts) -> APIRouter:
    """Return the routes of policies."""
    router = APIRouter(prefix="/policies", tags=["policies"])

    async def parsed(body: DocumentBody) -> ParsedPolicy:
        # In a thread: a quarter of a megabyte of YAML would stop the loop for a second.
        if body.text is not None:
            return await asyncio.to_thread(parts.commands.parse_text, body.text, source=body.source)
        return await asyncio.to_thread(parts.commands.parse_document, body.document)

    @router.get("", responses=answers({"policies": [examples.POLICY]}))
    async def list_policies(by: By) -> Response:
        """List every policy, the oldest first."""
        return Reply({"policies": await parts.queries.policies(by.who())})

    @router.post("", status_code=201, responses=answers({"policy": examples.POLICY}, status=201))
    async def create_policy(body: PolicyBody, by: By) -> Response:
        """Create a policy; a refused document is answered with every fault and its place."""
        ident = await parts.commands.create_policy(
            body.name, await parsed(body), source=body.text or "", who=by.who(body.by)
        )
        found = await parts.queries.policy(by.who(), ident)
        return Reply({"policy": found}, 201, location("policies", ident))

    @router.post(
        "/validate",
        responses=answers(
            {
                "policy": {
                    "valid": True,
                    "type": "senlin.policy.health",
                    "version": "1.3",
                    "warnings": [],
                    "arithmetic": examples.ARITHMETIC,
                    "document": {},
                }
            }
        ),
    )
    async def validate_policy(body: DocumentBody) -> Response:
        """Say what a document means and how long a failure may take, without storing anything."""
        found = await parsed(body)
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
            policy, await parsed(body), source=body.text or "", by=by.who(body.by)
        )
        return Reply({"policy": await parts.queries.policy(by.who(), policy)})

    @router.delete("/{policy}", status_code=204)
    async def delete_policy(policy: Word, by: By) -> Response:
        """Delete a policy that no cluster uses."""
        await parts.commands.delete_policy(policy, who=by.who())
        return Response(status_code=204)

    return router

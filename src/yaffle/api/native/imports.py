"""Taking over from a Senlin over HTTP: in pieces, for administrators, a dry run unless told otherwise."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from yaffle.api.app_context import AppContext
from yaffle.api.bodies import Body, Name
from yaffle.api.dependencies import By, answers
from yaffle.api.http.reply import Reply
from yaffle.core.imports.dump import ORDER
from yaffle.core.imports.planned import Planned
from yaffle.engine.commands.imports import OBJECTS_MAX, Import

Rows = Annotated[
    list[dict[str, Any]],
    Field(default_factory=list, max_length=OBJECTS_MAX, description="As Senlin's API shows them."),
]
ITEM = {
    "kind": "clusters",
    "id": "e287e6b0-bc41-4e8a-b6ba-7bca5bdc4944",
    "name": "web",
    "outcome": "create",
    "reasons": [],
    "notes": ["RESIZING becomes ERROR: how that ended is unknown"],
}
PROFILE: dict[str, Any] = {
    "id": "718af29d-b29a-4c40-bf08-ec7b7e48173c",
    "name": "web",
    "type": "yaffle.local.process-1.0",
    "spec": {
        "type": "yaffle.local.process",
        "version": "1.0",
        "properties": {"command": ["python3", "-m", "http.server", "{port}"]},
    },
    "project": "default",
    "created_at": "2026-11-20T08:42:40Z",
}


class Lists(BaseModel):
    """Objects by kind."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    profiles: Rows
    policies: Rows
    clusters: Rows
    nodes: Rows
    cluster_policies: Rows
    receivers: Rows


class ImportBody(Body, Lists):
    """Objects that are to be taken over."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"dry_run": True, "profiles": [PROFILE]}]}
    )

    dry_run: bool = Field(default=True, description="Say what would be done, and do nothing.")
    project: Name | None = Field(
        default=None, description="Everything goes to this project; absent: each to its own."
    )
    assumed: Lists | None = Field(
        default=None,
        description="Of a dry run in pieces: what other pieces would create and this one refers to.",
    )


def imports(parts: AppContext) -> APIRouter:
    """Return the route of imports."""
    router = APIRouter(prefix="/import", tags=["operators"])

    @router.post(
        "",
        responses=answers(
            {"import": {"dry_run": True, "counts": {"create": 1}, "items": [ITEM]}},
            text="What becomes of each object: create, present, different or refuse.",
        ),
    )
    async def import_objects(body: ImportBody, by: By, request: Request) -> Response:
        """Take over profiles, policies, clusters, nodes and receivers under the ids that they have.

        What is here already is left as it is, so an import that broke off is asked for again.
        """
        root = f"{request.url.scheme}://{request.headers['host']}"
        found = await parts.commands.import_objects(
            by.who(body.by),
            Import(
                lists=_lists(body),
                assumed={} if body.assumed is None else _lists(body.assumed),
                project=body.project,
                dry_run=body.dry_run,
            ),
            base_url=parts.public_url or root,
        )
        counts = Counter(str(planned.outcome) for planned in found)
        items = [_shown(planned) for planned in found]
        return Reply({"import": {"dry_run": body.dry_run, "counts": counts, "items": items}})

    return router


def _lists(body: Lists) -> dict[str, list[dict[str, Any]]]:
    return {name: getattr(body, name) for name in ORDER}


def _shown(planned: Planned) -> dict[str, object]:
    return {
        "kind": planned.kind,
        "id": planned.id,
        "name": planned.name,
        "outcome": planned.outcome,
        "reasons": planned.reasons,
        "notes": planned.notes,
    }

"""Policies: rules that clusters are given; which of them a cluster has is told by its bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.api.clustering import lists, request_schemas, response_schemas, serializers
from yaffle.api.clustering.lists import Filter, Noun
from yaffle.api.clustering.microversion import V1_2
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.clustering.table import Good, Route
from yaffle.api.clustering.validation import changed, created
from yaffle.api.http.reply import Reply
from yaffle.store.tables import policies

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from starlette.responses import Response

    from yaffle.policy import ParsedPolicy

NOUN: Final = Noun(
    word="policy",
    plural="policies",
    table=policies,
    fetch=serializers.policies_by_id,
    filters={"name": Filter(column=policies.c.name), "type": Filter(column=policies.c.type)},
    sorts={
        "type": policies.c.type,
        "name": policies.c.name,
        "created_at": policies.c.created_us,
        "updated_at": policies.c.updated_us,
    },
    order=(policies.c.created_us, policies.c.id),
)
EXAMPLE: Final = {
    "name": "web-health",
    "spec": {
        "type": "senlin.policy.health",
        "version": "1.2",
        "properties": {
            "detection": {
                "interval": 60,
                "detection_modes": [{"type": "NODE_STATUS_POLLING"}],
            },
            "recovery": {"actions": [{"name": "RECREATE"}]},
        },
    },
}


async def list_policies(call: ApiRequest) -> Response:
    """List policies, the oldest first."""
    return await lists.listed(call, NOUN)


async def create_policy(call: ApiRequest) -> Response:
    """Create a policy; a refused document is answered with every fault and its place."""
    spec = _spec(call)
    ident = await call.parts.commands.create_policy(
        str(call.body["name"]), await _parsed(call, spec), who=call.who, given=spec
    )
    return Reply({"policy": await _fresh(call, ident)}, 201)


async def validate_policy(call: ApiRequest) -> Response:
    """Say whether a document would be accepted, without storing anything."""
    spec = _spec(call)
    parsed = await _parsed(call, spec)
    row: Mapping[str, object] = {
        "id": None,
        "name": "validated_policy",
        "type": parsed.type_name,
        "given": spec,
        "user": call.who.user,
        "project": call.who.project,
        "domain": call.who.domain,
        "created_us": None,
        "updated_us": None,
    }
    return Reply({"policy": serializers.policy(row)})


async def show_policy(call: ApiRequest) -> Response:
    """Show one policy."""
    return Reply({"policy": await lists.one(call, NOUN, call.path["policy"])})


async def update_policy(call: ApiRequest) -> Response:
    """Change the name; the document of a policy never changes here."""
    ident = await call.parts.commands.rename_policy(
        call.who, call.path["policy"], name=str(call.body["name"])
    )
    return Reply({"policy": await _fresh(call, ident)})


async def delete_policy(call: ApiRequest) -> Response:
    """Delete a policy that is attached to no cluster."""
    await call.parts.commands.delete_policy(call.path["policy"], who=call.who)
    return call.gone()


def _spec(call: ApiRequest) -> Mapping[str, object]:
    spec = call.mapping("spec")
    assert spec is not None  # noqa: S101 - the schema requires it
    return spec


async def _parsed(call: ApiRequest, spec: Mapping[str, object]) -> ParsedPolicy:
    version = spec["version"]
    # YAML without quotes makes a number of a version.
    spelt = version if isinstance(version, str) else str(version)
    # In a thread: a large document would stop the loop.
    return await asyncio.to_thread(call.parts.commands.parse_document, {**spec, "version": spelt})


async def _fresh(call: ApiRequest, ident: str) -> lists.Shown:
    def work(conn: Connection) -> lists.Shown:
        return serializers.policy(serializers.row_of(conn, policies, ident), fresh=True)

    return await call.read(work)


ONE: Final = response_schemas.single("policy", response_schemas.POLICY)
ROUTES: Final = (
    Route(
        method="GET",
        path="/policies",
        handler=list_policies,
        tag="policies",
        params=NOUN.params,
        good=Good(schema=response_schemas.listed("policies", response_schemas.POLICY)),
    ),
    Route(
        method="POST",
        path="/policies",
        handler=create_policy,
        tag="policies",
        body=created("policy", request_schemas.POLICY_CREATE, EXAMPLE),
        good=Good(status=201, schema=ONE),
    ),
    Route(
        method="POST",
        path="/policies/validate",
        handler=validate_policy,
        tag="policies",
        since=V1_2,
        body=created("policy", request_schemas.VALIDATE, {"spec": EXAMPLE["spec"]}),
        good=Good(schema=ONE),
    ),
    Route(
        method="GET",
        path="/policies/{policy}",
        handler=show_policy,
        tag="policies",
        good=Good(schema=ONE),
    ),
    Route(
        method="PATCH",
        path="/policies/{policy}",
        handler=update_policy,
        tag="policies",
        body=changed("policy", request_schemas.POLICY_UPDATE, {"name": "web-health-2"}),
        good=Good(schema=ONE),
    ),
    Route(
        method="DELETE",
        path="/policies/{policy}",
        handler=delete_policy,
        tag="policies",
        good=Good(status=204, text="It is gone."),
    ),
)

"""Routes of a cluster's policies and of its nodes' attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from yaffle.api.clustering import attributes, lists, response_schemas, serializers
from yaffle.api.clustering.lists import Filter, Noun
from yaffle.api.clustering.microversion import V1_2
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.clustering.routes import clusters, policies
from yaffle.api.clustering.table import Good, Route
from yaffle.api.http.reply import Reply
from yaffle.errors import PolicyBindingNotFound
from yaffle.store.tables import bindings
from yaffle.store.tables import policies as policy_rows

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from starlette.responses import Response


async def list_bindings(call: ApiRequest) -> Response:
    """List the policies that are attached to a cluster, those first that act first."""
    lists.understand(call, NOUN)
    ident = await clusters.id_of(call)
    return await lists.listed(call, NOUN, bindings.c.cluster_id == ident)


async def show_binding(call: ApiRequest) -> Response:
    """Show how one policy is attached to a cluster."""

    def work(conn: Connection) -> lists.Shown:
        cluster = lists.found(call, clusters.NOUN, conn, call.path["cluster"])
        policy = lists.found(call, policies.NOUN, conn, call.path["policy"])
        ident = conn.execute(
            select(bindings.c.id).where(
                bindings.c.cluster_id == cluster, bindings.c.policy_id == policy
            )
        ).scalar_one_or_none()
        if ident is None:
            raise PolicyBindingNotFound(
                f"The policy '{call.path['policy']}' is not found attached to the specified"
                f" cluster '{call.path['cluster']}'."
            )
        return serializers.bindings_by_id(conn, [ident], call.version)[ident]

    return Reply({"cluster_policy": await call.read(work)})


async def show_attributes(call: ApiRequest) -> Response:
    """Show one attribute of every node of a cluster, by JSONPath; `details…` asks the backend."""
    path = attributes.parsed(call.path["path"])
    ident = await clusters.id_of(call)
    return Reply({"cluster_attributes": await attributes.of_nodes(call, ident, path)})


NOUN: Final = Noun(
    word="cluster_policy",
    plural="cluster_policies",
    table=bindings,
    fetch=serializers.bindings_by_id,
    filters={
        "enabled": Filter(column=bindings.c.enabled, convert=lists.boolean("enabled")),
        "policy_name": Filter(
            column=bindings.c.policy_id,
            through=lambda values: select(policy_rows.c.id).where(policy_rows.c.name.in_(values)),
        ),
        "policy_type": Filter(column=bindings.c.policy_type),
    },
    sorts={"enabled": bindings.c.enabled},
    order=(bindings.c.priority, bindings.c.created_us, bindings.c.id),
    pages=False,
    owned=False,
)
ROUTES: Final = (
    Route(
        method="GET",
        path="/clusters/{cluster}/policies",
        handler=list_bindings,
        tag="clusters",
        params=NOUN.params,
        good=Good(schema=response_schemas.listed("cluster_policies", response_schemas.BINDING)),
    ),
    Route(
        method="GET",
        path="/clusters/{cluster}/policies/{policy}",
        handler=show_binding,
        tag="clusters",
        good=Good(schema=response_schemas.single("cluster_policy", response_schemas.BINDING)),
    ),
    Route(
        method="GET",
        path="/clusters/{cluster}/attrs/{path:path}",
        handler=show_attributes,
        tag="clusters",
        since=V1_2,
        good=Good(schema=response_schemas.listed("cluster_attributes", response_schemas.ATTRIBUTE)),
    ),
)

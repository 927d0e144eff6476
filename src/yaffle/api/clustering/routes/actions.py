"""Actions: what is being done, waits to be done, and was done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.api.clustering import errors, lists, request_schemas, response_schemas, serializers
from yaffle.api.clustering.lists import Filter, Noun
from yaffle.api.clustering.microversion import V1_12
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.clustering.table import Good, Param, Route
from yaffle.api.clustering.validation import Body, changed
from yaffle.api.http.reply import Reply
from yaffle.errors import BadRequest, Forbidden
from yaffle.store.tables import actions

if TYPE_CHECKING:
    from starlette.responses import Response

STATUSES: Final = frozenset(
    {
        "INIT",
        "WAITING",
        "READY",
        "RUNNING",
        "SUCCEEDED",
        "FAILED",
        "CANCELLED",
        "WAITING_LIFECYCLE_COMPLETION",
        "SUSPENDED",
    }
)
NAMES: Final = frozenset(
    {
        *(
            f"CLUSTER_{verb}"
            for verb in (
                "CREATE",
                "DELETE",
                "UPDATE",
                "ADD_NODES",
                "DEL_NODES",
                "RESIZE",
                "CHECK",
                "RECOVER",
                "REPLACE_NODES",
                "SCALE_OUT",
                "SCALE_IN",
                "ATTACH_POLICY",
                "DETACH_POLICY",
                "UPDATE_POLICY",
                "OPERATION",
            )
        ),
        *(
            f"NODE_{verb}"
            for verb in (
                "CREATE",
                "DELETE",
                "UPDATE",
                "JOIN",
                "LEAVE",
                "CHECK",
                "RECOVER",
                "OPERATION",
            )
        ),
    }
)
NOUN: Final = Noun(
    word="action",
    plural="actions",
    table=actions,
    fetch=serializers.actions_by_id,
    filters={
        "name": Filter(column=actions.c.name),
        "cluster_id": Filter(column=actions.c.cluster_id),
        "target": Filter(column=actions.c.target),
        "action": Filter(column=actions.c.action, words=NAMES),
        "status": Filter(column=actions.c.status, words=STATUSES),
    },
    sorts={
        "name": actions.c.name,
        "target": actions.c.target,
        "action": actions.c.action,
        "created_at": actions.c.created_us,
        "status": actions.c.status,
    },
    order=(actions.c.created_us, actions.c.id),
    # openstacksdk's own tests ask for the action of a cluster that they deleted by the cluster's id.
    named_by=actions.c.target,
    portion=1000,
)
CANCELLED: Final = "CANCELLED"
FORCE: Final = Param(
    name="force",
    text="Do not wait for the next safe place: it is cancelled at once.",
    schema={"type": "string", "enum": ["true", "false", "True", "False"]},
)


async def list_actions(call: ApiRequest) -> Response:
    """List actions, the oldest first."""
    return await lists.listed(call, NOUN)


async def create_action(call: ApiRequest) -> Response:
    """Refuse: actions are made by what asks for them, such as `POST /v1/clusters`."""
    raise Forbidden("You are not authorized to complete this operation.")


ITSELF: Final = replace(NOUN, named_by=None)
"""What is cancelled is named by its own id."""


async def show_action(call: ApiRequest) -> Response:
    """Show one action with what it waits for; a target's id stands for its newest action."""
    return Reply({"action": await lists.one(call, NOUN, call.path["action"])})


async def cancel_action(call: ApiRequest) -> Response:
    """Ask an action and its parts to stop at the next safe place."""
    force = call.switch("force")
    ident = str((await lists.one(call, ITSELF, call.path["action"]))["id"])
    if call.body["status"] != CANCELLED:
        raise BadRequest(f"Unknown status {str(call.body['status'])[:100]} for action {ident}.")
    await call.parts.commands.action_cancel(call.who, ident, force=force)
    return errors.page(202, explanation="The request is accepted for processing.")


ROUTES: Final = (
    Route(
        method="GET",
        path="/actions",
        handler=list_actions,
        tag="actions",
        params=NOUN.params,
        good=Good(schema=response_schemas.listed("actions", response_schemas.ACTION)),
    ),
    Route(
        method="POST",
        path="/actions",
        handler=create_action,
        tag="actions",
        body=Body(schema={"type": "object"}, by_handler=True, optional=True),
        good=Good(status=403, text="Nobody may.", schema={"$ref": "#/components/schemas/Fault"}),
    ),
    Route(
        method="GET",
        path="/actions/{action}",
        handler=show_action,
        tag="actions",
        good=Good(schema=response_schemas.single("action", response_schemas.ACTION)),
    ),
    Route(
        method="PATCH",
        path="/actions/{action}",
        handler=cancel_action,
        tag="actions",
        since=V1_12,
        params=(FORCE,),
        body=changed("action", request_schemas.ACTION_UPDATE, {"status": CANCELLED}),
        good=Good(
            status=202, text="It was asked to stop.", schema={"type": "string"}, media="text/html"
        ),
    ),
)

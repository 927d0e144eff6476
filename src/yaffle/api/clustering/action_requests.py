"""Parses the bodies of `…/actions`: one key, the action, and its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from yaffle.api.clustering import validation
from yaffle.api.clustering.errors import HTTPBadRequest, MethodVersionNotFound
from yaffle.api.clustering.microversion import OLDEST, V1_3, V1_9, Microversion
from yaffle.api.clustering.request_schemas import BOOLEAN, IDENTITY, MAP, TEXT, number, shape
from yaffle.api.clustering.validation import Schema
from yaffle.errors import BadRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb: one key of the body."""

    schema: Schema
    text: str
    since: Microversion = OLDEST
    loose: bool = False
    """Whether unknown keys are told by `recognize`, as Senlin does for these two verbs."""


NODES: Final[Schema] = {"type": "array", "items": IDENTITY, "minItems": 1, "uniqueItems": True}
COUNT: Final = shape(count=number(0, "How many; by the scaling policy, else 1, if left out."))
OPERATION: Final[Schema] = {
    **TEXT,
    "description": "`REBOOT`, `REBUILD` or `RECREATE`, in any case; by the policy if left out.",
}
CHECK: Final = shape(delete_check_action=BOOLEAN)

CLUSTER_VERBS: Final[Mapping[str, Verb]] = {
    "add_nodes": Verb(
        schema=shape(("nodes",), nodes=NODES), text="Make nodes without a cluster its members."
    ),
    "del_nodes": Verb(
        schema=shape(("nodes",), nodes=NODES, destroy_after_deletion=BOOLEAN),
        text="Let members go; they live on unless `destroy_after_deletion` (1.4) is true.",
    ),
    "replace_nodes": Verb(
        schema=shape(
            ("nodes",),
            nodes={
                "type": "object",
                "additionalProperties": IDENTITY,
                "minProperties": 1,
                "description": "By each member that goes, the node that takes its place.",
            },
        ),
        text="Replace members by nodes without a cluster.",
        since=V1_3,
    ),
    "scale_out": Verb(schema=COUNT, text="Add nodes."),
    "scale_in": Verb(schema=COUNT, text="Take nodes away, those first that are not well."),
    "resize": Verb(
        schema=shape(
            adjustment_type={
                "type": ["string", "null"],
                "enum": [
                    "EXACT_CAPACITY",
                    "CHANGE_IN_CAPACITY",
                    "CHANGE_IN_PERCENTAGE",
                    None,
                ],
            },
            number={
                "type": ["number", "string", "null"],
                "pattern": validation.NUMBER_PATTERN,
                "minimum": -2_147_483_648,
                "maximum": 2_147_483_647,
            },
            min_size=number(0),
            max_size=number(-1),
            min_step=number(0, "Smallest change of a percentage."),
            strict={**BOOLEAN, "description": "Refuse what exceeds the bounds; true if left out."},
        ),
        text="Change the capacity, its bounds, or both.",
    ),
    "check": Verb(schema=CHECK, text="Look at every node.", loose=True),
    "recover": Verb(
        schema=shape(
            operation=OPERATION, operation_params=MAP, check=BOOLEAN, check_capacity=BOOLEAN
        ),
        text="Recover the members that are not well.",
        loose=True,
    ),
    "policy_attach": Verb(
        schema=shape(("policy_id",), policy_id=IDENTITY, enabled=BOOLEAN),
        text="Attach a policy.",
    ),
    "policy_detach": Verb(schema=shape(("policy_id",), policy_id=IDENTITY), text="Detach it."),
    "policy_update": Verb(
        schema=shape(("policy_id", "enabled"), policy_id=IDENTITY, enabled=BOOLEAN),
        text="Switch an attached policy on or off.",
    ),
    "complete_lifecycle": Verb(
        schema=shape(("lifecycle_action_token",), lifecycle_action_token=IDENTITY),
        text="Let an action go on that waits for a word from outside.",
        since=V1_9,
    ),
}

HINTS: Final = ("event", "state", "instance_id", "timestamp", "publisher")
"""What a notification said of the node; kept with the action (Senlin refuses its own words)."""
HINT: Final[Schema] = {"type": "string", "maxLength": 255, "description": "A notification's word."}

NODE_VERBS: Final[Mapping[str, Verb]] = {
    "check": Verb(schema=CHECK, text="Look at the node.", loose=True),
    "recover": Verb(
        schema=shape(
            operation=OPERATION,
            operation_params=MAP,
            check=BOOLEAN,
            delete_timeout=number(0, "Seconds to wait for the old copy to be gone."),
            force_recreate=BOOLEAN,
            force=BOOLEAN,
            **dict.fromkeys(HINTS, HINT),
        ),
        text="Recover the node.",
        loose=True,
    ),
}


def whole(verbs: Mapping[str, Verb]) -> Schema:
    """Return the schema of a body with exactly one of these keys."""
    return {
        "type": "object",
        "properties": {
            name: {**verb.schema, "description": verb.text} for name, verb in verbs.items()
        },
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }


def chosen(
    verbs: Mapping[str, Verb],
    body: Mapping[str, object],
    version: Microversion,
    *,
    not_a_map: str,
    end: str,
) -> tuple[str, Mapping[str, object]]:
    """Return the one verb of a body and its data; null in it means absent.

    `end` is how the messages end: Senlin's nodes have a full stop where its clusters have none,
    but for one that both say alike.
    """
    if not body:
        raise HTTPBadRequest(f"No action specified{end}")
    if len(body) > 1:
        raise HTTPBadRequest(f"Multiple actions specified{end}")
    ((name, data),) = body.items()
    verb = verbs.get(name)
    if verb is None:
        raise HTTPBadRequest(f"Unrecognized action '{name[:100]}' specified")
    if version < verb.since:
        raise MethodVersionNotFound(f"API version '{version}' is not supported on this method.")
    if not isinstance(data, Mapping):
        raise HTTPBadRequest(not_a_map)
    known = {k: v for k, v in data.items() if not verb.loose or k in verb.schema["properties"]}
    found = validation.check(verb.schema, known)
    return name, {key: value for key, value in found.items() if value is not None}


def recognize(verbs: Mapping[str, Verb], name: str, given: object) -> None:
    """Raise BadRequest for what a loose verb does not know; only said of an object that is there."""
    verb = verbs[name]
    assert isinstance(given, Mapping)  # noqa: S101 - so says `chosen`
    unknown = [key for key in given if key not in verb.schema["properties"]]
    if unknown and verb.loose:
        raise BadRequest(f"Action parameter {unknown} is not recognizable.")


def one_operation(body: Mapping[str, object], *, end: str = "") -> tuple[str, Mapping[str, object]]:
    """Return the one operation of a body and what it holds; `end` as of `chosen`."""
    if not body:
        raise HTTPBadRequest(f"No operation specified{end}")
    if len(body) > 1:
        raise HTTPBadRequest(f"Multiple operations specified{end}")
    ((name, data),) = body.items()
    if not isinstance(data, Mapping):
        raise HTTPBadRequest("The data provided is not a map")
    return name, data

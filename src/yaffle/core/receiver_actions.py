"""What a receiver may start, and with which words: one row per action; tests and documents read it.

A receiver that can only fail is a trap that opens at night, so what it was given is judged when it
is made. What the caller of a webhook sends is judged again, after unknown words have been dropped:
alarm systems post their own report, and only the words that the action knows are meant for us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

Params = Mapping[str, object]


class Route(StrEnum):
    """Which verb of the commands carries the action out."""

    ACT = "cluster_act"
    DELETE = "cluster_delete"
    UPDATE = "cluster_update"
    OPERATE = "cluster_op"


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    """One kind of value: what it is called in a refusal, and whether a value is one."""

    words: str
    fits: Callable[[object], bool]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_names(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_text, value))


def _is_pairs(value: object) -> bool:
    return isinstance(value, dict) and bool(value) and all(map(_is_text, value.values()))


COUNT: Final = Takes(
    words="a whole number from 1 on",
    # Clients send null for a count that nobody has given.
    fits=lambda value: value is None or (_is_int(value) and value > 0),  # type: ignore[operator]
)
INTEGER: Final = Takes(words="a whole number", fits=_is_int)
NUMBER: Final = Takes(
    words="a number", fits=lambda value: _is_int(value) or isinstance(value, float)
)
FLAG: Final = Takes(words="true or false", fits=lambda value: isinstance(value, bool))
TEXT: Final = Takes(words="a text", fits=_is_text)
NAMES: Final = Takes(words="a list of names or ids", fits=_is_names)
PAIRS: Final = Takes(words="a map of old names or ids to new ones", fits=_is_pairs)
TABLE: Final = Takes(words="a map", fits=lambda value: isinstance(value, dict))


@dataclass(frozen=True, slots=True, kw_only=True)
class Startable:
    """One action that a receiver may start."""

    route: Route
    verb: str = ""
    """The word of `cluster_act`; empty for the other routes."""
    takes: Mapping[str, Takes]


def _act(verb: str, **takes: Takes) -> Startable:
    return Startable(route=Route.ACT, verb=verb, takes=MappingProxyType(takes))


ACTIONS: Final[Mapping[str, Startable]] = MappingProxyType(
    {
        "CLUSTER_SCALE_OUT": _act("scale_out", count=COUNT),
        "CLUSTER_SCALE_IN": _act("scale_in", count=COUNT),
        "CLUSTER_RESIZE": _act(
            "resize",
            adjustment_type=TEXT,
            number=NUMBER,
            min_size=INTEGER,
            max_size=INTEGER,
            min_step=INTEGER,
            strict=FLAG,
        ),
        "CLUSTER_CHECK": _act("check", delete_check_action=FLAG),
        "CLUSTER_RECOVER": _act(
            "recover", operation=TEXT, operation_params=TABLE, check=FLAG, check_capacity=FLAG
        ),
        "CLUSTER_ADD_NODES": _act("add_nodes", nodes=NAMES),
        "CLUSTER_DEL_NODES": _act("del_nodes", nodes=NAMES, destroy_after_deletion=FLAG),
        "CLUSTER_REPLACE_NODES": _act("replace_nodes", nodes=PAIRS),
        "CLUSTER_ATTACH_POLICY": _act("policy_attach", policy_id=TEXT, enabled=FLAG),
        "CLUSTER_DETACH_POLICY": _act("policy_detach", policy_id=TEXT),
        "CLUSTER_UPDATE_POLICY": _act("policy_update", policy_id=TEXT, enabled=FLAG),
        "CLUSTER_UPDATE": Startable(
            route=Route.UPDATE,
            takes=MappingProxyType(
                {
                    "name": TEXT,
                    "profile_id": TEXT,
                    "metadata": TABLE,
                    "timeout": INTEGER,
                    "profile_only": FLAG,
                    "config": TABLE,
                }
            ),
        ),
        "CLUSTER_DELETE": Startable(route=Route.DELETE, takes=MappingProxyType({"force": FLAG})),
        "CLUSTER_OPERATION": Startable(
            route=Route.OPERATE,
            takes=MappingProxyType({"operation": TEXT, "filters": TABLE, "params": TABLE}),
        ),
    }
)
"""Senlin's CLUSTER_* but CLUSTER_CREATE, for which there is no cluster yet."""


def faults(action: str, params: Params, *, strict: bool) -> Iterator[str]:
    """Yield what is wrong with the inputs of an action, each with its place.

    `strict` refuses words that the action does not know; a name of an action that is none of
    `ACTIONS` raises KeyError.
    """
    takes = ACTIONS[action].takes
    for key in sorted(params):
        kind = takes.get(key)
        if kind is None:
            if strict:
                known = ", ".join(sorted(takes))
                yield f"params.{key}: {action} takes no such parameter; it takes {known}"
        elif not kind.fits(params[key]):
            yield f"params.{key}: {params[key]!r} is not {kind.words}"


def merged(action: str, params: Params, sent: Params) -> dict[str, object]:
    """Return the inputs of one trigger: what was sent over the receiver's own, known words only."""
    takes = ACTIONS[action].takes
    return {**params, **{key: value for key, value in sent.items() if key in takes}}


def inputs_of(version: int, body: object) -> Params:
    """Return what the body of a trigger sends; empty for a body that is no object.

    With V=1 it is below `params`; from V=2 on it is the body itself.
    """
    if not isinstance(body, dict):
        return {}
    if version == 1:
        inner = body.get("params")
        return inner if isinstance(inner, dict) else {}
    return body

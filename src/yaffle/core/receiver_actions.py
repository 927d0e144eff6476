"""The table of actions that a receiver may start, with their parameters.

A receiver that can only fail is a trap that opens at night, so what it was given is judged when it
is made. Who calls a webhook has nothing but its URL. What its creator has given is final; of what is
sent only the words in `callers` count, the other words of the action are refused, and words that the
action does not know are dropped: alarm systems post their own report.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeVar

from yaffle.model.action import ActionKind

Params = Mapping[str, object]
T = TypeVar("T")


class Route(StrEnum):
    """The verb of the commands that carries the action out."""

    ACT = "cluster_act"
    DELETE = "cluster_delete"
    UPDATE = "cluster_update"
    OPERATE = "cluster_op"


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    """One kind of value: what it is called in a refusal, and how it is read.

    `read` raises ValueError. Numbers and booleans may come as texts, for the command line of
    Senlin's client sends nothing else.
    """

    words: str
    read: Callable[[object], object]


def _number(value: object) -> int | float:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,9})?", value):
        value = float(value) if "." in value else int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > INT_MAX:
        raise ValueError
    return int(value) if float(value).is_integer() else value


def _integer(value: object) -> int:
    number = _number(value)
    if not isinstance(number, int):
        raise ValueError  # noqa: TRY004 - what every reader raises
    return number


def _count(value: object) -> int:
    number = _integer(value)
    if number < 1:
        raise ValueError
    return number


def _flag(value: object) -> bool:
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    return _of(bool)(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_MAX:
        raise ValueError
    return value


def _adjustment(value: object) -> str:
    if value not in ADJUSTMENTS:
        raise ValueError
    return str(value)


def _names(value: object) -> list[str]:
    found = [_text(one) for one in _of(list)(value)]
    if not found or len(set(found)) < len(found):
        raise ValueError
    return found


def _pairs(value: object) -> dict[str, str]:
    found = {_text(old): _text(new) for old, new in _of(dict)(value).items()}
    if not found:
        raise ValueError
    return found


def _of(kind: type[T]) -> Callable[[object], T]:
    def read(value: object) -> T:
        if not isinstance(value, kind):
            raise ValueError  # noqa: TRY004 - what every reader raises
        return value

    return read


INT_MAX: Final = 2_147_483_647
TEXT_MAX: Final = 255
ADJUSTMENTS: Final = ("EXACT_CAPACITY", "CHANGE_IN_CAPACITY", "CHANGE_IN_PERCENTAGE")

COUNT: Final = Takes(words="a whole number from 1 on", read=_count)
INTEGER: Final = Takes(words="a whole number", read=_integer)
NUMBER: Final = Takes(words="a number", read=_number)
FLAG: Final = Takes(words="true or false", read=_flag)
TEXT: Final = Takes(words="a text", read=_text)
ADJUSTMENT: Final = Takes(words=f"one of {', '.join(ADJUSTMENTS)}", read=_adjustment)
NAMES: Final = Takes(words="a list of different names or ids", read=_names)
PAIRS: Final = Takes(words="a map of old names or ids to new ones", read=_pairs)
TABLE: Final = Takes(words="a map", read=_of(dict))


@dataclass(frozen=True, slots=True, kw_only=True)
class Startable:
    """One action that a receiver may start."""

    route: Route
    verb: str = ""
    """The word of `cluster_act`; empty for the other routes."""
    takes: Mapping[str, Takes]
    callers: frozenset[str] = frozenset()
    """What the caller of a webhook may say where its creator has not: how much, and never what."""


def _act(verb: str, callers: frozenset[str] = frozenset(), **takes: Takes) -> Startable:
    return Startable(route=Route.ACT, verb=verb, callers=callers, takes=MappingProxyType(takes))


HOW_MANY: Final = frozenset({"count"})
"""By how many nodes: bounded by the cluster's sizes and by its scaling policies."""


ACTIONS: Final[Mapping[str, Startable]] = MappingProxyType(
    {
        ActionKind.CLUSTER_SCALE_OUT: _act("scale_out", HOW_MANY, count=COUNT),
        ActionKind.CLUSTER_SCALE_IN: _act("scale_in", HOW_MANY, count=COUNT),
        ActionKind.CLUSTER_RESIZE: _act(
            "resize",
            adjustment_type=ADJUSTMENT,
            number=NUMBER,
            min_size=INTEGER,
            max_size=INTEGER,
            min_step=INTEGER,
            strict=FLAG,
        ),
        ActionKind.CLUSTER_CHECK: _act("check", delete_check_action=FLAG),
        ActionKind.CLUSTER_RECOVER: _act(
            "recover", operation=TEXT, operation_params=TABLE, check=FLAG, check_capacity=FLAG
        ),
        ActionKind.CLUSTER_ADD_NODES: _act("add_nodes", nodes=NAMES),
        ActionKind.CLUSTER_DEL_NODES: _act("del_nodes", nodes=NAMES, destroy_after_deletion=FLAG),
        ActionKind.CLUSTER_REPLACE_NODES: _act("replace_nodes", nodes=PAIRS),
        ActionKind.CLUSTER_ATTACH_POLICY: _act("policy_attach", policy_id=TEXT, enabled=FLAG),
        ActionKind.CLUSTER_DETACH_POLICY: _act("policy_detach", policy_id=TEXT),
        ActionKind.CLUSTER_UPDATE_POLICY: _act("policy_update", policy_id=TEXT, enabled=FLAG),
        ActionKind.CLUSTER_UPDATE: Startable(
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
        ActionKind.CLUSTER_DELETE: Startable(
            route=Route.DELETE, takes=MappingProxyType({"force": FLAG})
        ),
        ActionKind.CLUSTER_OPERATION: Startable(
            route=Route.OPERATE,
            takes=MappingProxyType({"operation": TEXT, "filters": TABLE, "params": TABLE}),
        ),
    }
)
"""Senlin's CLUSTER_* but CLUSTER_CREATE, for which there is no cluster yet."""


def faults(action: str, params: Params) -> Iterator[str]:
    """Yield what is wrong with the parameters of an action, each with its place.

    A name of an action that is none of `ACTIONS` raises KeyError.
    """
    takes = ACTIONS[action].takes
    for key in sorted(params.keys() - takes.keys()):
        yield f"params.{key}: {action} takes no such parameter; it takes {', '.join(takes)}"
    yield from inputs(action, params)[1]


def inputs(action: str, params: Params) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the inputs that the action knows, each in its own type, and what is wrong with them.

    Words that the action does not know are dropped, and so is null, which means "not given".
    """
    found: dict[str, object] = {}
    wrong: list[str] = []
    for key, kind in ACTIONS[action].takes.items():
        value = params.get(key)
        if value is None:
            continue
        try:
            found[key] = kind.read(value)
        except ValueError:
            wrong.append(f"params.{key}: {_shown(value)} is not {kind.words}")
    return found, tuple(wrong)


def called(action: str, pinned: Params, sent: Params) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the inputs of an action that the caller of a webhook starts, and what is wrong with them.

    What is pinned stays as it is, whatever is sent for it.
    """
    open_words = ACTIONS[action].callers
    own = {key: value for key, value in pinned.items() if value is not None}
    further = {
        key: value
        for key, value in sent.items()
        if key in ACTIONS[action].takes and key not in own and value is not None
    }
    refused = [
        f"params.{key}: the caller of a webhook cannot set it; whoever owns the receiver can"
        for key in sorted(further.keys() - open_words)
    ]
    found, wrong = inputs(action, {**further, **own})
    return found, (*refused, *(() if refused else wrong))


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


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

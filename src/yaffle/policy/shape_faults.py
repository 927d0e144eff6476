"""Faults that pydantic found, in our words: unknown keys with near misses, missing keys, wrong kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import ValidationError

from yaffle.policy.faults import Fault, Path, listed, near_miss, shown
from yaffle.policy.settings import DocumentSettings
from yaffle.policy.versions import Grammar, Spec, place

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


S = TypeVar("S", bound=Spec)


def validate(
    document: dict[str, object],
    shape: type[S],
    grammar: Grammar,
    version: str,
    settings: DocumentSettings,
) -> tuple[S | None, list[Fault]]:
    """Return the typed document, or every fault of its shape."""
    try:
        spec = shape.model_validate(document, context={"settings": settings})
    except ValidationError as error:
        found = error.errors(include_url=False)
        return None, [_fault(details, grammar, version) for details in found]
    return spec, []


def _fault(details: ErrorDetails, grammar: Grammar, version: str) -> Fault:
    kind, path = details["type"], tuple(details["loc"])
    if kind == "extra_forbidden":
        return Fault(path=path, text=_unknown_key(path, grammar, version), at_key=True)
    if kind == "missing":
        return Fault(path=path, text=grammar.missing.get(path, "required"))
    if kind == "too_long":
        longest = details.get("ctx", {}).get("max_length")
        return Fault(path=path, text=f"too many entries; at most {longest}")
    make = _KINDS.get(kind)
    return Fault(path=path, text=make(details["input"]) if make else details["msg"])


_KINDS: Final[Mapping[str, Callable[[object], str]]] = {
    kind: make
    for kinds, make in (
        (("model_type", "model_attributes_type", "dict_type"), lambda v: _wanted("a mapping", v)),
        (("list_type",), lambda v: _wanted("a list", v)),
    )
    for kind in kinds
}


def _wanted(what: str, value: object) -> str:
    return f"has to be {what}, not {shown(value)}"


def _unknown_key(path: Path, grammar: Grammar, version: str) -> str:
    key, where = str(path[-1]), place(path[:-1])
    if where == ("properties", "detection") and key in ("type", "options"):
        return "only in versions 1.0 and 1.1; here write detection_modes: [{type: …, options: …}]"
    known = grammar.keys_at(where, version)
    hint = near_miss(key, known)
    homes = [_home(home) for home in grammar.homes_of(key) if home != where]
    # At the top level a key of the inside is a lost indentation rather than a misspelling.
    if homes and (not hint or not where):
        return f"unknown key here; it belongs under {' or '.join(homes)}: check the indentation"
    return f"unknown key{hint}" if hint else f"unknown key; known here: {listed(known)}"


def _home(where: tuple[str, ...]) -> str:
    if not where:
        return "the top level"
    return ".".join(where if len(where) == 1 else where[1:])

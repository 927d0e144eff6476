"""`{{ node.physical_id }}` in action params: a closed substitution, never a template engine.

One pass, nothing evaluated: a filled-in value that itself holds `{{ }}` is data and stays as it is
(design/policies). Mapping keys are never filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from yaffle.errors import InvalidSpec
from yaffle.policy.faults import Path, listed, near_miss, shown_text

NAMES: Final = (
    "node.id",
    "node.name",
    "node.physical_id",
    "node.index",
    "cluster.id",
    "cluster.name",
    "incident.id",
    "operation.id",
)
ALIASES: Final[Mapping[str, str]] = {"node.physicalid": "node.physical_id"}
"""Seed 1 writes `node.physicalid`."""
ATTRIBUTE: Final = re.compile(r"node\.attributes\.[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
# Blanks are stripped afterwards: matched here, they would cost time in the cube of their number.
TEMPLATE: Final = re.compile(r"\{\{([^{}]*)\}\}")


def names_in(value: object) -> frozenset[str]:
    """Return the names that `value` needs, aliases resolved, at any depth."""
    found: set[str] = set()
    for _, text in _texts(value, ()):
        found.update(_name(match) for match in TEMPLATE.finditer(text))
    return frozenset(found)


def has_template(value: object) -> bool:
    """Whether `value` is text that is filled in later, hence cannot be judged now."""
    return isinstance(value, str) and TEMPLATE.search(value) is not None


def check(value: object, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield place and sentence of every template that could never be filled in."""
    for here, text in _texts(value, path):
        for match in TEMPLATE.finditer(text):
            if not _is_known(name := _name(match)):
                known = (*NAMES, *ALIASES, "node.attributes.<key>")
                hint = near_miss(name, known)
                yield here, f"unknown name {shown_text(name)!r}{hint}; known: {listed(known)}"
        if "{{" in TEMPLATE.sub("", text):
            yield here, "'{{' without its '}}'; write {{ name }}"


def fill(value: object, names: Mapping[str, object]) -> object:
    """Return a copy of `value` with its templates filled in from `names`.

    Text that is one template and nothing else takes the value with its type; inside longer text it
    becomes text. Raises InvalidSpec naming every name that has no value here.
    """
    wanted = names_in(value)
    gaps = sorted(name for name in wanted if not _is_scalar(names.get(name)))
    if gaps:
        raise InvalidSpec(f"no value here for {listed(gaps)}")
    return _filled(value, names)


def _filled(value: object, names: Mapping[str, object]) -> object:
    if isinstance(value, Mapping):
        return {key: _filled(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_filled(item, names) for item in value]
    if not isinstance(value, str):
        return value
    if whole := TEMPLATE.fullmatch(value):
        return names[_name(whole)]
    return TEMPLATE.sub(lambda match: str(names[_name(match)]), value)


def _texts(value: object, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from _texts(item, (*path, place))


def _name(match: re.Match[str]) -> str:
    name = match.group(1).strip()
    return ALIASES.get(name, name)


def _is_known(name: str) -> bool:
    return name in NAMES or ATTRIBUTE.fullmatch(name) is not None


def _is_scalar(value: object) -> bool:
    return isinstance(value, (str, int, float))

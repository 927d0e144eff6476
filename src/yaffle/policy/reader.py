"""YAML text to plain values with the line and column of each, bounded in size, depth and aliases.

Only what JSON can hold comes out: a date stays text, and of YAML's many spellings of a number the
plain decimal one is a number (`010` and `1:30` surprise people, so they stay text and are refused
where a number is wanted). Broken YAML, duplicate keys and several documents are faults.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

import yaml

from yaffle.policy.faults import Fault, Mark, Path, Places, shown, shown_text
from yaffle.policy.settings import DocumentSettings

INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})", re.ASCII)
FLOAT: Final = re.compile(r"[-+]?[0-9]{1,15}\.[0-9]{0,15}(?:[eE][-+][0-9]{1,2})?", re.ASCII)
TRUE: Final = frozenset({"true", "yes", "on"})
FALSE: Final = frozenset({"false", "no", "off"})
_TAG: Final = "tag:yaml.org,2002:"
_TEXT_TAGS: Final = frozenset({"str", "timestamp", "value", "merge"})
QUOTE_HINT: Final = 'a template has to be quoted in YAML: write "{{ node.physical_id }}"'


class Unreadable(Exception):
    """The text is no document at all; carries the one fault that says why."""

    def __init__(self, text: str, mark: Mark | None = None) -> None:
        self.fault = Fault(path=(), text=text, mark=mark)
        super().__init__(text)


@dataclass(slots=True, kw_only=True)
class Reader:
    """Builds values from YAML nodes and notes faults on the way."""

    settings: DocumentSettings
    places: Places
    text: str
    faults: list[Fault] = field(default_factory=list)
    count: int = 0

    def read(self) -> object:
        """Return the value of the one document in the text; raise Unreadable if there is none."""
        self._check_size()
        try:
            self._check_events()
            node = yaml.compose(self.text, Loader=yaml.CSafeLoader)
        except yaml.MarkedYAMLError as error:
            raise self._broken(error) from None
        except yaml.YAMLError as error:
            raise self._unreadable(getattr(error, "reason", "it cannot be read")) from None
        if node is None:
            raise Unreadable("the document is empty")
        return self._value(node, ())

    def _check_size(self) -> None:
        try:
            size = len(self.text.encode())
        except UnicodeEncodeError:
            raise self._unreadable("it is not Unicode text") from None
        if size > self.settings.max_bytes:
            raise self._unreadable(f"{size} bytes; at most {self.settings.max_bytes} are read")

    def _check_events(self) -> None:
        """Bound the depth before anything recurses; libyaml's own nesting has no bound we can set."""
        depth = documents = 0
        for event in yaml.parse(self.text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
            if depth > self.settings.max_depth:
                raise self._too_deep(_mark(event.start_mark))
            if documents > 1:
                text = "more than one YAML document; keep one and remove the line '---'"
                raise Unreadable(text, _mark(event.start_mark))

    def _too_deep(self, mark: Mark | None = None) -> Unreadable:
        text = f"nested deeper than {self.settings.max_depth} levels"
        return Unreadable(text, mark)

    def _unreadable(self, reason: str) -> Unreadable:
        return Unreadable(f"the document is refused: {reason}")

    def _broken(self, error: yaml.MarkedYAMLError) -> Unreadable:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "it cannot be parsed"
        text = f"this is not valid YAML: {problem}"
        lines = self.text.splitlines()
        nearby = {m.line for m in (error.problem_mark, error.context_mark) if m is not None}
        # The parser often notices one line too late.
        near = [lines[n] for line in nearby for n in (line - 1, line) if 0 <= n < len(lines)]
        if any("{{" in line for line in near):
            text += f"; {QUOTE_HINT}"
        elif mark is not None and mark.line < len(lines) and "\t" in lines[mark.line]:
            text += "; indent with spaces, not with tabs"
        return Unreadable(text, _mark(mark))

    # --- Values ---

    def _value(self, node: yaml.Node, path: Path) -> object:
        self.places.values.setdefault(path, _start(node))
        self.count += 1
        if self.count > self.settings.max_values:
            raise self._unreadable(f"more than {self.settings.max_values} values")
        # An alias may point at what holds it; events alone do not show that.
        if len(path) > self.settings.max_depth:
            raise self._too_deep(_start(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return self._sequence(node, path)
        return self._scalar(node, path)

    def _sequence(self, node: yaml.SequenceNode, path: Path) -> list[object]:
        self._check_tag(node, path, "seq")
        return [self._value(item, (*path, place)) for place, item in enumerate(node.value)]

    def _mapping(self, node: yaml.MappingNode, path: Path) -> object:
        self._check_tag(node, path, "map")
        if _is_template(node):
            self._fault(path, QUOTE_HINT)
            # Stands in for the template, so that the same place is not blamed twice.
            return ""
        result: dict[str, object] = {}
        for key, item in self._keyed(node, path):
            result[key] = self._value(item, (*path, key))
        return result

    def _keyed(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, yaml.Node]]:
        seen: set[str] = set()
        for key_node, item in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            here = (*path, key)
            if key in seen:
                mark = _start(key_node)
                first = self.places.keys[here]
                text = f"the key stands twice, first in line {first.line}; keep one"
                self._fault_at(here, text, mark)
                continue
            seen.add(key)
            self.places.keys.setdefault(here, _start(key_node))
            yield key, item

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        if isinstance(node, yaml.ScalarNode) and node.tag == _TAG + "str":
            key: str = node.value
            return key
        if node.tag == _TAG + "merge":
            text = "merge keys (<<) are not read; write the keys out"
        elif isinstance(node, yaml.ScalarNode):
            text = f"the key {shown(node.value)} is not text; quote it"
        else:
            text = "a key has to be text"
        self._fault_at(path, text, _start(node))
        return None

    def _scalar(self, node: yaml.Node, path: Path) -> object:
        text: str = node.value
        tag = node.tag.removeprefix(_TAG)
        if tag == "null":
            return None
        if tag == "int" and INTEGER.fullmatch(text):
            return int(text)
        if tag == "float" and FLOAT.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        if tag == "bool" and text.lower() in TRUE | FALSE:
            return text.lower() in TRUE
        if tag not in _TEXT_TAGS | {"int", "float", "bool"}:
            self._fault(path, f"the YAML tag {shown_text(node.tag)} is not read; remove it")
        return text

    def _check_tag(self, node: yaml.Node, path: Path, plain: str) -> None:
        if node.tag != _TAG + plain:
            self._fault(path, f"the YAML tag {shown_text(node.tag)} is not read; remove it")

    def _fault(self, path: Path, text: str) -> None:
        self.faults.append(Fault(path=path, text=text))

    def _fault_at(self, path: Path, text: str, mark: Mark) -> None:
        self.faults.append(Fault(path=path, text=text, mark=mark))


class _YamlMark(Protocol):
    """libyaml's mark or PyYAML's own; both count from 0."""

    line: int
    column: int


def _mark(mark: _YamlMark | None) -> Mark | None:
    return Mark(line=mark.line + 1, column=mark.column + 1) if mark is not None else None


def _start(node: yaml.Node) -> Mark:
    # A node that came out of a text always has its mark.
    return _mark(node.start_mark) or Mark(line=1, column=1)


def _is_template(node: yaml.MappingNode) -> bool:
    """`{{ x }}` unquoted is a flow mapping whose only key is a flow mapping."""
    return (
        bool(node.flow_style)
        and len(node.value) == 1
        and isinstance(node.value[0][0], yaml.MappingNode)
        and bool(node.value[0][0].flow_style)
    )

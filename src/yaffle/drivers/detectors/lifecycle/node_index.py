"""Finds the nodes that an event is about: by the backend's id first, by our own mark second.

An event is somebody's word. It names nodes to read, and a node that it names wrongly is read for
nothing: no harm comes of a forged one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from yaffle.drivers.detectors.lifecycle.events import Subject

if TYPE_CHECKING:
    from yaffle.drivers.detectors.lifecycle.messages import Heard
    from yaffle.drivers.detectors.lifecycle.watch import Node


class Roster:
    """All nodes of all watches, by what events call them."""

    def __init__(self) -> None:
        self._by_copy: dict[str, dict[int, Node]] = {}
        self._by_node: dict[str, dict[int, Node]] = {}
        self._all: dict[int, Node] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, nodes: Iterable[Node]) -> None:
        """Find these from now on."""
        for node in nodes:
            self._all[id(node)] = node
            self._by_node.setdefault(node.target.node_id, {})[id(node)] = node
            if node.target.physical_id:
                self._by_copy.setdefault(node.target.physical_id, {})[id(node)] = node

    def remove(self, nodes: Iterable[Node]) -> None:
        """Find these no more."""
        for node in nodes:
            if self._all.pop(id(node), None) is None:
                continue
            for index, key in (
                (self._by_copy, node.target.physical_id),
                (self._by_node, node.target.node_id),
            ):
                if (named := index.get(key)) is not None:
                    named.pop(id(node), None)
                    if not named:
                        del index[key]

    def about(self, heard: Heard) -> Iterator[Node]:
        """Yield the nodes that may have changed."""
        if heard.subject is Subject.SERVICE:
            yield from list(self._on_host(heard.host))
            return
        by_copy = self._by_copy.get(heard.ident)
        if by_copy:
            yield from list(by_copy.values())
            return
        for node in list(self._by_node.get(heard.node_id, {}).values()):
            # Another copy of the node, which is not the one we watch, says nothing of it.
            if not node.target.physical_id:
                yield node

    def _on_host(self, host: str) -> Iterator[Node]:
        """Yield the nodes of a host, and those of which nobody has told us where they are."""
        for node in self._all.values():
            known = node.host or str(node.target.attributes.get("host") or "")
            if known in {host, ""}:
                yield node

"""The identity of the machine that a node's process lives on.

An engine elsewhere finds no trace of such a node: its folder is not there, nor is its pid. To take
that for "gone" would start a second copy. So the home is written among the node's attributes before
its first copy is asked for, and whoever finds another home there than its own does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

HOME: Final = "home"
HOST: Final = "home_host"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineIdentity:
    """One state directory as seen from one machine."""

    ident: str
    """The same for every engine that may act on its nodes."""
    host: str
    """What people call the machine."""

    def stamp(self) -> dict[str, object]:
        """Return the attributes that say so."""
        return {HOME: self.ident, HOST: self.host}

    def foreign(self, attributes: Mapping[str, object]) -> str:
        """Return why a node with those attributes is not ours to judge; "" where it may be."""
        ident = attributes.get(HOME)
        if ident is None or ident == self.ident:
            return ""
        host = attributes.get(HOST)
        where = f"host {host}" if host != self.host else "another state directory of this host"
        return f"it belongs to {where}; only an engine there can see it or act on it"


def unpinned(attributes: Mapping[str, object]) -> bool:
    """Whether nobody has said yet where the node lives."""
    return HOME not in attributes

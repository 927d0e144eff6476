"""Evidence and facts for people: the console's end, the fault, and what was done to the server last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.operations.create import facts_of
from yaffle.errors import YaffleError
from yaffle.integrations.openstack.servers.status_mapping import words_of

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.nova import Nova
    from yaffle.model.operations import Target

BYTES_MAX: Final = 64 * 1024
LINES: Final = 400
_ACTS: Final = 10


def capture(nova: Nova, target: Target) -> str:
    """Return what can be had of the failure; each part that cannot says why."""
    ident = target.physical_id
    if not ident:
        return "no evidence: no server was ever made"
    parts = [_state(nova, ident), _acts(nova, ident), _console(nova, ident)]
    return "\n".join(parts).encode()[:BYTES_MAX].decode("utf-8", "ignore")


def _state(nova: Nova, ident: str) -> str:
    server = nova.show(ident)
    return f"server {ident}: {words_of(server) if server else 'Nova knows no such server'}"


def _acts(nova: Nova, ident: str) -> str:
    try:
        acts = nova.history(ident)
    except YaffleError as error:
        return f"acts: not readable: {error}"
    lines = [
        f"  {act.start_time} {act.action} {act.message or ''} {act.request_id}"
        for act in acts[:_ACTS]
    ]
    return "\n".join(("acts, the newest first:", *(lines or ["  none"])))


def _console(nova: Nova, ident: str) -> str:
    try:
        return f"console:\n{nova.console(ident, LINES)}"
    except YaffleError as error:
        return f"console: not readable: {error}"


def describe(nova: Nova, target: Target, where: Mapping[str, object]) -> Mapping[str, object]:
    """Return JSON-able facts about the present copy; empty when there is none."""
    server = nova.show(target.physical_id) if target.physical_id else None
    if server is None:
        return {}
    facts: dict[str, object] = {
        **facts_of(server, where),
        "id": server.id,
        "name": server.name,
        "status": server.status,
        "state": words_of(server),
        "created": server.created,
        "updated": server.updated,
        "locked": server.locked,
        "metadata": dict(server.metadata),
        "addresses": {
            network: [address.addr for address in several]
            for network, several in server.addresses.items()
        },
    }
    return facts

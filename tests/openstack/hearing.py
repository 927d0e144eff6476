"""Whether a Yaffle hears the cloud: what happens before that is found by asking, and not at once."""

from __future__ import annotations

from typing import Final

from tests.functional.cli.support import Server
from tests.waiting import wait_for

CHECK: Final = "events of LIFECYCLE_EVENTS"


def until_heard(server: Server) -> None:
    """Wait until it listens: that all its nodes are well it may know from a look before that."""
    wait_for(lambda: "listening to" in _told(server), why=lambda: _told(server))


def _told(server: Server) -> str:
    checks = server.cli("doctor", "--json").json["checks"]
    return " ".join(check["detail"] for check in checks if check["name"] == CHECK)

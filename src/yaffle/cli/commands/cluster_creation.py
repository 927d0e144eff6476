"""Creation of a cluster by the command line: nodes have its name, its policies come first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.cli.client.action_progress import follow
from yaffle.cli.client.clustering import Started
from yaffle.cli.client.native import Api, Refused, Row, inner
from yaffle.cli.client.waiting import TIMEOUT_S, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME_FORMAT: Final = "node.name.format"


def named(name: str, name_format: str | None = None) -> dict[str, object]:
    """Return the name of a cluster and how its nodes are called: web-1, web-2, …"""
    return {"name": name, "config": {NAME_FORMAT: name_format or f"{name}-$1I"}}


def begun(api: Api, body: Row, policies: Sequence[str]) -> Started:
    """Begin to create a cluster; its policies are in force before its first node is made.

    The clustering API knows no cluster that is created with policies. So that no node is ever
    unwatched, such a cluster is created empty, given its policies, and then brought to its size.
    """
    if not policies:
        return api.v1.start("POST", "clusters", body={"cluster": body})
    known = [str(inner(api.v1.get("policies", one), "policy").get("id")) for one in policies]
    wanted = {k: body[k] for k in ("min_size", "max_size") if k in body}
    size = body.get("desired_capacity", 0)
    empty = {**body, "desired_capacity": 0, "min_size": 0}
    started = api.v1.start("POST", "clusters", body={"cluster": empty})
    ident = str(inner(started.body, "cluster").get("id"))
    what = f"cluster {body.get('name')}"
    follow(api, started.action, what, timeout_s=TIMEOUT_S, quiet=True)
    try:
        for one in known:
            attached = api.v1.act("clusters", ident, "policy_attach", {"policy_id": one})
            follow(api, attached.action, what, timeout_s=TIMEOUT_S, quiet=True)
    except (Refused, WorkFailed):
        # A cluster without its policies is not what was asked for.
        api.v1.start("DELETE", "clusters", ident)
        raise
    resize = {"adjustment_type": "EXACT_CAPACITY", "number": size, **wanted}
    return Started(action=api.v1.act("clusters", ident, "resize", resize).action, body=started.body)

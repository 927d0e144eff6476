"""The table of rights: what each route needs, read before the route is reached and by tests.

The body of a request may ask for more than its route: the global stop under another name, a fence,
a program of the operator's. That is checked inside the verb, by `model.authz.need`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from starlette.requests import Request
from starlette.routing import compile_path

from yaffle.model.authz import Principal, Right, need

Needs = frozenset[Right]
"""Every one of them; none at all where nobody has to say who they are."""

OPEN: Final[Needs] = frozenset()
READ: Final[Needs] = frozenset({Right.READ})
WRITE: Final[Needs] = frozenset({Right.WRITE})
ADMIN: Final[Needs] = frozenset({Right.ADMIN})
RELEASE: Final[Needs] = frozenset({Right.WRITE, Right.OVERRIDE})
STOP: Final[Needs] = frozenset({Right.ADMIN, Right.OVERRIDE})
"""It concerns every project: all healing, or all instances of a host."""

NOBODY: Final = Principal(user="", project="", rights=frozenset())
"""Who asks where nobody has to say it: somebody who may do nothing."""

_OWN: Final[Mapping[str, Mapping[str, Needs]]] = {
    "": {"GET": READ},
    "/openapi.json": {"GET": READ},
    "/doctor": {"GET": ADMIN},
    "/engines": {"GET": ADMIN},
    # Whose it is decides what may be done with it.
    "/sessions": {"POST": READ, "DELETE": READ},
    "/policies": {"GET": READ},
    "/policies/validate": {"POST": READ},
    "/policies/{policy}": {"GET": READ, "PUT": WRITE},
    "/clusters": {"GET": READ},
    "/clusters/{cluster}": {"GET": READ},
    "/clusters/{cluster}/release": {"POST": RELEASE},
    "/nodes": {"GET": READ},
    "/nodes/{node}": {"GET": READ},
    "/nodes/{node}/why": {"GET": READ},
    "/nodes/{node}/mark": {"POST": WRITE, "DELETE": WRITE},
    "/incidents": {"GET": READ},
    "/incidents/{incident}": {"GET": READ},
    "/incidents/{incident}/acknowledge": {"POST": WRITE},
    "/decisions": {"GET": READ},
    "/decisions/check": {"GET": READ},
    "/events": {"GET": READ},
    "/actions": {"GET": READ},
    "/outbox": {"GET": READ},
    # Notifiers belong to the installation, and so does sending their news again.
    "/outbox/redeliver": {"POST": ADMIN},
    # A host belongs to no project, and whoever marks one has others start its instances elsewhere.
    "/hosts/{host}/failures": {"POST": STOP},
    "/hosts/{host}/fence": {"POST": STOP},
    "/hosts/{host}/unfence": {"POST": ADMIN},
    # Its signature is the proof of who sends it.
    "/host-failures": {"POST": OPEN},
    "/host-notifications": {"GET": ADMIN},
    "/hosts": {"GET": ADMIN},
    "/hosts/{host}": {"GET": ADMIN},
    "/alerts": {"GET": ADMIN},
    "/alerts/{alert}": {"GET": ADMIN},
    "/alerts/retry": {"POST": ADMIN},
    "/alerts/{alert}/discard": {"POST": ADMIN},
    "/maintenance": {"GET": READ, "POST": WRITE},
    "/maintenance/{pause}": {"DELETE": WRITE},
    "/stop": {"GET": READ, "POST": STOP, "DELETE": STOP},
    # Objects of every project, under ids that others chose.
    "/import": {"POST": ADMIN},
}

_CLUSTERING: Final[Mapping[str, Mapping[str, Needs]]] = {
    # Which versions there are is told to anybody: clients look before they have signed in.
    "": {"GET": OPEN},
    "/": {"GET": OPEN},
    "/build-info": {"GET": READ},
    "/profile-types": {"GET": READ},
    "/profile-types/{type}": {"GET": READ},
    "/profile-types/{type}/ops": {"GET": READ},
    "/policy-types": {"GET": READ},
    "/policy-types/{type}": {"GET": READ},
    "/profiles": {"GET": READ, "POST": WRITE},
    "/profiles/validate": {"POST": WRITE},
    "/profiles/{profile}": {"GET": READ, "PATCH": WRITE, "DELETE": WRITE},
    "/policies": {"GET": READ, "POST": WRITE},
    "/policies/validate": {"POST": WRITE},
    "/policies/{policy}": {"GET": READ, "PATCH": WRITE, "DELETE": WRITE},
    "/clusters": {"GET": READ, "POST": WRITE},
    "/clusters/{cluster}": {"GET": READ, "PATCH": WRITE, "DELETE": WRITE},
    "/clusters/{cluster}/attrs/{path:path}": {"GET": READ},
    "/clusters/{cluster}/actions": {"POST": WRITE},
    "/clusters/{cluster}/ops": {"POST": WRITE},
    "/clusters/{cluster}/policies": {"GET": READ},
    "/clusters/{cluster}/policies/{policy}": {"GET": READ},
    "/nodes": {"GET": READ, "POST": WRITE},
    "/nodes/adopt": {"POST": WRITE},
    "/nodes/adopt-preview": {"POST": WRITE},
    "/nodes/{node}": {"GET": READ, "PATCH": WRITE, "DELETE": WRITE},
    "/nodes/{node}/actions": {"POST": WRITE},
    "/nodes/{node}/ops": {"POST": WRITE},
    # The address of a webhook is a password for its action: those who may only look do not see it.
    "/receivers": {"GET": WRITE, "POST": WRITE},
    "/receivers/{receiver}": {"GET": WRITE, "PATCH": WRITE, "DELETE": WRITE},
    "/receivers/{receiver}/notify": {"POST": WRITE},
    # Its address is all the proof there is.
    "/webhooks/{receiver}/trigger": {"POST": OPEN},
    "/actions": {"GET": READ, "POST": WRITE},
    "/actions/{action}": {"GET": READ, "PATCH": WRITE},
    "/events": {"GET": READ},
    "/events/{event}": {"GET": READ},
    "/services": {"GET": ADMIN},
}

_INSTANCE_HA: Final[Mapping[str, Mapping[str, Needs]]] = {
    # A host belongs to no project, and neither does what is told of it (as Masakari's own rules).
    "/segments": {"GET": ADMIN, "POST": ADMIN},
    "/segments/{segment}": {"GET": ADMIN, "PUT": ADMIN, "DELETE": ADMIN},
    "/segments/{segment}/hosts": {"GET": ADMIN, "POST": ADMIN},
    "/segments/{segment}/hosts/{segment_host}": {"GET": ADMIN, "PUT": ADMIN, "DELETE": ADMIN},
    "/notifications": {"GET": ADMIN, "POST": ADMIN},
    "/notifications/{notification}": {"GET": ADMIN},
    "/notifications/{notification}/vmoves": {"GET": ADMIN},
    "/notifications/{notification}/vmoves/{vmove}": {"GET": ADMIN},
}

TABLE: Final[Mapping[str, Mapping[str, Needs]]] = MappingProxyType(
    {
        "/": {"GET": OPEN},
        "/versions": {"GET": OPEN},
        # Probes ask it every second and tell nobody anything.
        "/health": {"GET": OPEN},
        "/livez": {"GET": OPEN},
        "/readyz": {"GET": OPEN},
        "/metrics": {"GET": ADMIN},
        "/openapi.json": {"GET": OPEN},
        "/docs": {"GET": OPEN},
        **{f"/yaffle/v1{path}": needs for path, needs in _OWN.items()},
        **{f"/v1{path}": needs for path, needs in _CLUSTERING.items()},
        # Which versions there are is told to anybody.
        **{f"/instance-ha{path}": {"GET": OPEN} for path in ("", "/", "/v1", "/v1/")},
        **{f"/instance-ha/v1{path}": needs for path, needs in _INSTANCE_HA.items()},
    }
)
"""Path template → method → what it needs. HEAD needs what GET needs."""

_COMPILED: Final = tuple((compile_path(path)[0], methods) for path, methods in TABLE.items())
_OF_PROJECT: Final = re.compile(r"^/instance-ha/v1/[0-9a-f-]+(?=/)")
"""Catalogs may put a project's id before every path of that API; it leads to the same."""
_OURS: Final = frozenset(path.split("/")[1] for path in TABLE if path != "/") - {"versions"}


def needed(method: str, path: str) -> Needs | None:
    """Return what a request needs; None for a place that no row knows.

    Where two rows fit, everything that either needs: which of them the request will reach is the
    router's affair. A first part that is nobody's might be another version of the clustering API,
    and which versions there are is no secret.
    """
    method = "GET" if method == "HEAD" else method
    path = _OF_PROJECT.sub("/instance-ha/v1", path)
    fitting = [m[method] for regex, m in _COMPILED if method in m and regex.match(path)]
    if fitting:
        return frozenset[Right]().union(*fitting)
    return None if path.lstrip("/").partition("/")[0] in _OURS else OPEN


async def has_row(request: Request) -> None:
    """Refuse a route that nobody has written into the table to whoever lacks any right."""
    if request.scope.get("yaffle.needs") is None:
        who = request.scope.get("yaffle.who")
        for right in Right:
            need(who if isinstance(who, Principal) else NOBODY, right)

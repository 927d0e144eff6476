"""Taking stacks away with the project that they are in: what Heat makes, Heat has to delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lab.openstack.api import Api, Refused
from lab.openstack.waiting import until

if TYPE_CHECKING:
    from lab.openstack.lab import Credentials
    from lab.openstack.plan import Plan

ORCHESTRATION: Final = "orchestration"
GONE_S: Final = 120.0


def remove_all(plan: Plan, credentials: Credentials) -> None:
    """Delete the stacks of a project as its user, and wait until they are gone."""
    api = Api(plan, credentials.user, credentials.password, credentials.project)
    base = f"/v1/{credentials.project_id}/stacks"

    def left() -> list[str]:
        try:
            found = api.get(ORCHESTRATION, base)["stacks"]
        except Refused as refusal:
            if refusal.status not in (401, 403):
                raise
            return []  # who may not see stacks, or not any more, has none
        return [f"{s['stack_name']}/{s['id']}" for s in found]

    try:
        for path in left():
            try:
                api.call("DELETE", ORCHESTRATION, f"{base}/{path}")
            except Refused as refusal:
                if refusal.status != 404:
                    raise
        until(f"the stacks of {credentials.project} are gone", lambda: not left(), GONE_S, 0.3)
    finally:
        api.close()

"""Reference of the Nova profile: its settings, properties, operations, and what Nova's words mean."""

from __future__ import annotations

from typing import Final

from docs.pages.text import code, join, table

from yaffle.drivers.profiles.nova_server.schema import SCHEMA
from yaffle.drivers.profiles.nova_server.settings import NovaSettings
from yaffle.drivers.profiles.nova_server.tracking.verbs import CURES, OPERATIONS
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.openstack.servers.status_mapping import ROWS, Row
from yaffle.integrations.openstack.servers.stuck_tasks import TASKS, Task

MEANINGS: Final = {
    "cloud": "Name of the cloud in `clouds.yaml`.",
    "clouds_file": "The `clouds.yaml`; where OpenStack's own tools look for it unless given.",
    "credentials": "`cloud`: those that `clouds.yaml` has; `projects`: those that each node's project has"
    " handed to Yaffle, [and no others](../howto/act-for-each-project.md).",
    "all_projects": "Servers of every project are watched; takes an administrator's credentials.",
    "admit_hosts": "Yaffle itself lets a host in again that was forced down, once nothing is left"
    " there of what was moved off it, if HOST fencing had proved that it was off before:"
    " [Hosts](../explanation/hosts.md).",
    "snapshots_per_node": "How many images that recoveries have taken of a node are kept, the newest:"
    " [Keep the disk](../howto/heal-nova-servers.md#keep-the-disk).",
    "snapshots_per_cluster": "The same for all nodes of a cluster together.",
    "stuck_after": "Seconds after which a task of Nova's that does not move is a failure:"
    " [the table](#tasks-that-move-no-more).",
    "stuck_after_long": "The same for tasks that are long by nature.",
    "full_sweep": "Seconds between two complete lists of servers; in between only changes are read.",
}


def profile(recorder: Section, asked: dict[str, tuple[str, str]]) -> str:
    """Return the section; `asked` is what `recorder` notes while the settings are read from it."""
    NovaSettings.read(recorder)
    return join(
        "## Profile `os.nova.server-1.0`",
        "A node is a server of an OpenStack cloud. Needs `yaffle[openstack]`, and is offered once there\n"
        'is a section `[drivers."os.nova.server-1.0"]`. How to use it:\n'
        "[Heal Nova servers](../howto/heal-nova-servers.md).",
        table(
            ("setting", "value", "default", "meaning"),
            [
                (
                    code(key),
                    kind,
                    default if default == "required" else code(default),
                    MEANINGS[key],
                )
                for key, (kind, default) in asked.items()
            ],
        ),
        "Properties of a profile, in Senlin's words:",
        table(("property", "type", "default", "can be updated", "meaning"), _properties()),
        "Operations:",
        table(("operation", "in place", "parameters", "what it does"), _operations()),
        "What a server is read as; the first row that fits counts. `power` is what the hypervisor saw\n"
        "last: 1 running, 3 paused, 0 nothing there, 4 off, 6 crashed, 7 suspended.",
        table(("status", "power", "the node is", "because", "cheapest cure"), map(_reading, ROWS)),
        "### Tasks that move no more",
        "A task that does not change for longer than its bound, as Yaffle itself has watched it, makes\n"
        "the node `ST-STUCK`. Where the last column names an act, whoever asked for it wants the server\n"
        "not to run: whether that was a user is\n"
        "[asked by those who listen](../howto/listen-to-notifications.md). Where a host may be at it\n"
        "Nova's record of the act is asked first; what Nova does not tell is never taken for nobody.",
        table(("tasks", "bound", "somebody wants it not to run"), _tasks()),
    )


def _properties() -> list[tuple[str, str, str, str, str]]:
    return [
        (
            code(name),
            node.type.value,
            "required" if node.required else code(_default(node.default)),
            "yes" if node.updatable else "",
            node.description,
        )
        for name, node in SCHEMA.items()
    ]


def _default(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _tasks() -> list[tuple[str, str, str]]:
    words: dict[Task, list[str]] = {}
    for word, task in TASKS.items():
        words.setdefault(task, []).append(word)
    return [
        (", ".join(map(code, several)), _bound(t), code(t.ends)) for t, several in words.items()
    ]


def _bound(task: Task) -> str:
    if task.endless:
        return "none: the server runs on meanwhile"
    bound = code("stuck_after_long" if task.long else "stuck_after")
    return f"{bound}, while no host is at it" if task.long or task.again else bound


def _operations() -> list[tuple[str, str, str, str]]:
    return [
        (
            code(name),
            "yes" if spec.in_place else "no",
            "; ".join(
                f"`{key}`"
                + (f": {', '.join(map(str, p.choices))} (default {p.default})" if p.choices else "")
                for key, p in spec.params.items()
            ),
            spec.description,
        )
        for name, spec in OPERATIONS.items()
    ]


def _reading(row: Row) -> tuple[str, str, str, str, str]:
    belief = {True: "up", False: "down" if row.exists else "gone", None: "unclear"}[row.up]
    busy = "any, while it is busy" if row.idle is False else "any"
    power = ", ".join(str(p) for p in sorted(p for p in row.power if p is not None))
    return (
        ", ".join(code(status) for status in sorted(row.statuses)) or busy,
        power,
        belief,
        row.why,
        code(CURES.get(row.event, "")),
    )

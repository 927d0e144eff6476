"""Reference of the Heat profile: its settings, properties, operations, and what Heat's words mean."""

from __future__ import annotations

from typing import Final

from docs.pages.text import code, join, table

from yaffle.drivers.profiles.heat_stack.operations.verbs import OPERATIONS
from yaffle.drivers.profiles.heat_stack.schema import SCHEMA
from yaffle.drivers.profiles.heat_stack.settings import HeatSettings
from yaffle.drivers.profiles.heat_stack.status.status_mapping import ROWS, Means, Row
from yaffle.integrations.driver_settings import Section

MEANINGS: Final = {
    "cloud": "Name of the cloud in `clouds.yaml`.",
    "clouds_file": "The `clouds.yaml`; where OpenStack's own tools look for it unless given.",
    "credentials": "`cloud`: those that `clouds.yaml` has; `projects`: those that each node's project has"
    " handed to Yaffle, [and no others](../howto/act-for-each-project.md).",
    "full_sweep": "Seconds between two complete lists of servers; in between only changes are read.",
    "member_sweep": "Seconds between two looks at the members of a stack that has not changed.",
}
BELIEFS: Final = {
    Means.GONE: "gone",
    Means.DOWN: "down",
    Means.UNCLEAR: "unclear",
    Means.MEMBERS: "down if a member failed, unclear if one is unclear, else up",
    Means.AT_BEST_UNCLEAR: "down if a member failed, else unclear",
}


def profile(recorder: Section, asked: dict[str, tuple[str, str]]) -> str:
    """Return the section; `asked` is what `recorder` notes while the settings are read from it."""
    HeatSettings.read(recorder)
    return join(
        "## Profile `os.heat.stack-1.0`",
        "A node is a stack of an OpenStack cloud. Needs `yaffle[openstack]`, and is offered once there\n"
        'is a section `[drivers."os.heat.stack-1.0"]`. How to use it:\n'
        "[Heal Heat stacks](../howto/heal-heat-stacks.md).",
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
        "Properties of a profile, in Senlin's words; all but `context` can be updated:",
        table(
            ("property", "type", "default", "meaning"),
            [
                (
                    code(name),
                    node.type.value,
                    "" if node.default is None else code(str(node.default).lower()),
                    node.description,
                )
                for name, node in SCHEMA.items()
            ],
        ),
        "Operations:",
        table(
            ("operation", "in place", "parameters", "what it does"),
            [
                (
                    code(name),
                    "yes" if spec.in_place else "no",
                    "; ".join(f"`{key}`: {p.description}" for key, p in spec.params.items()),
                    spec.description,
                )
                for name, spec in OPERATIONS.items()
            ],
        ),
        "What a stack is read as; the first row that fits counts.",
        table(("status", "the node is", "because"), map(_reading, ROWS)),
    )


def _reading(row: Row) -> tuple[str, str, str]:
    actions = sorted(row.actions) or ["…"]
    statuses = ", ".join(code(f"{action}_{row.outcome or '…'}") for action in actions)
    return statuses, BELIEFS[row.means], row.why

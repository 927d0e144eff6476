"""The tree of commands. Nothing heavy is imported here: a command imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated

import typer
import typer.main

from yaffle import __version__
from yaffle.cli import demo, serve
from yaffle.cli.command import client
from yaffle.cli.commands import (
    actions,
    audit,
    bindings,
    clustering_events,
    clusters,
    credentials,
    database,
    decisions,
    doctor,
    document_types,
    engines,
    events,
    imports,
    incidents,
    member_operations,
    node_operations,
    node_recovery,
    nodes,
    openstack,
    operators,
    outbox,
    policies,
    profiles,
    receivers,
    runbook,
    services,
    sizes,
    status,
    users,
    watch,
)

TOGETHER = (clusters, sizes, bindings, member_operations, nodes, node_operations, node_recovery)
"""Files that register their commands with a group of another of them, in the order of the help."""

app = typer.Typer(
    name="yaffle",
    help="Watches processes and nodes, decides safely what has failed, and heals it.",
    epilog="Exit codes: 0 done, 1 failed, 2 usage or bad document, 3 not found, 4 conflict or held,"
    " 5 server away.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("serve")(serve.serve)
app.command("watch")(watch.watch)
app.command("engine")(serve.engine)
app.command("api")(serve.api)
client(app, "status")(status.status)
client(app, "why")(nodes.why)
app.command("explain")(runbook.explain)
app.add_typer(profiles.app, name="profile")
app.add_typer(document_types.profile_types, name="profile-type")
app.add_typer(policies.app, name="policy")
app.add_typer(document_types.policy_types, name="policy-type")
app.add_typer(clusters.app, name="cluster")
app.add_typer(nodes.app, name="node")
app.add_typer(receivers.app, name="receiver")
app.add_typer(actions.app, name="action")
app.add_typer(clustering_events.app, name="event")
client(app, "events")(events.events)
app.add_typer(incidents.app, name="incident")
app.add_typer(decisions.app, name="decision")
app.add_typer(decisions.app, name="decisions", hidden=True)
app.add_typer(operators.app, name="maintenance")
client(app, "stop")(operators.stop)
app.add_typer(outbox.app, name="outbox")
app.command("doctor")(doctor.doctor)
app.add_typer(services.app, name="service")
client(app, "engines")(engines.engines)
app.add_typer(users.app, name="user")
app.add_typer(audit.app, name="audit")
app.add_typer(openstack.app, name="openstack")
app.add_typer(credentials.app, name="credential")
app.add_typer(imports.app, name="import")
app.add_typer(database.app, name="db")


def _version(*, value: bool) -> None:
    if value:
        print(f"yaffle {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Keep --version beside the commands."""


@cache
def tree() -> Callable[..., object]:
    """Return the commands ready to be run; made once, for it takes longer than most of them."""
    return typer.main.get_command(app)

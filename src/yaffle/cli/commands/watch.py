"""`yaffle watch`: what Yaffle would do in a cloud, seen with rights that can change nothing there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from yaffle.cli import durations
from yaffle.cli.command import Json

Cloud = Annotated[
    str,
    typer.Option(
        "--cloud",
        envvar="OS_CLOUD",
        metavar="NAME",
        help="The cloud's name in clouds.yaml; a user with the role reader is enough.",
    ),
]
CloudsFile = Annotated[
    Path | None,
    typer.Option(
        "--clouds-file",
        envvar="OS_CLIENT_CONFIG_FILE",
        metavar="FILE",
        help="Default: where OpenStack's own tools look for clouds.yaml.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FILE",
        help="What is known of the cloud. Default: yaffle/watch-NAME.db in $XDG_STATE_HOME, else in"
        " ~/.local/state.",
    ),
]
GROUPS = ("project", "server-group", "zone", "metadata:KEY", "name-prefix")


def _groups(incomplete: str) -> list[str]:
    return [one for one in GROUPS if one.startswith(incomplete)]


GroupBy = Annotated[
    str,
    typer.Option(
        "--group-by",
        metavar="RULE",
        autocompletion=_groups,
        help=f"Which servers are judged together: {', '.join(GROUPS)}.",
    ),
]
AllProjects = Annotated[
    bool, typer.Option("--all-projects", help="Servers of every project, for administrators.")
]
Interval = Annotated[
    float,
    typer.Option(
        "--interval",
        parser=durations.option,
        metavar="TIME",
        help="Between two looks, e.g. 15s or 1m; one request for a thousand servers.",
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="Your own health policy 1.3; it only observes, whatever it says. Default: a usual one.",
    ),
]
For = Annotated[
    float | None,
    typer.Option(
        "--for", parser=durations.option, metavar="TIME", help="End after so long, e.g. 7d."
    ),
]
Report = Annotated[
    bool, typer.Option("--report", help="Say what it came to, also while it runs; ask no cloud.")
]
Since = Annotated[
    float | None,
    typer.Option(
        "--since",
        parser=durations.option,
        metavar="TIME",
        help="With --report: only the last 2h, 1d, …",
    ),
]


def watch(
    cloud: Cloud,
    clouds_file: CloudsFile = None,
    state: State = None,
    group_by: GroupBy = "project",
    interval: Interval = 15.0,
    policy: Policy = None,
    for_: For = None,
    since: Since = None,
    *,
    all_projects: AllProjects = False,
    report: Report = False,
    as_json: Json = False,
) -> None:
    """Watch a cloud and tell what Yaffle would have done and why; nothing in it is ever changed.

    Only questions are sent, whatever the credentials allow. Ctrl-C ends it; the same command goes
    on where it was, and --report sums up. With --json each line is an object.
    """
    from yaffle.cli.dry_run import paths
    from yaffle.errors import ConfigError

    database = state or paths.default(cloud)
    if report:
        _report(cloud, database, since, as_json=as_json)
        return
    if since is not None:
        raise ConfigError("watch: --since belongs to --report")
    _watch(
        cloud,
        clouds_file,
        database,
        group_by,
        interval,
        policy,
        for_,
        all_projects=all_projects,
        as_json=as_json,
    )


def _watch(
    cloud: str,
    clouds_file: Path | None,
    database: Path,
    group_by: str,
    interval_s: float,
    policy: str | None,
    for_s: float | None,
    *,
    all_projects: bool,
    as_json: bool,
) -> None:
    from yaffle.cli.dry_run import app, grouping
    from yaffle.cli.serve import logs
    from yaffle.errors import ConfigError

    try:
        rule = grouping.rule_of(group_by)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--group-by") from None
    if clouds_file is not None and not clouds_file.is_file():
        raise ConfigError(f"--clouds-file {clouds_file}: there is no such file")
    # What goes wrong in the engine is said; what it does is what the lines are about.
    logs.configure("error", "text")
    app.run(
        app.Asked(
            cloud=cloud,
            clouds_file=clouds_file,
            database=database,
            rule=rule,
            all_projects=all_projects,
            interval_s=interval_s,
            policy_file=policy,
            for_s=for_s,
            as_json=as_json,
        )
    )


def _report(cloud: str, database: Path, since_s: float | None, *, as_json: bool) -> None:
    import asyncio

    from yaffle.cli.dry_run import paths, report
    from yaffle.cli.output import Output
    from yaffle.engine.runtime.clock import SystemClock
    from yaffle.store.database import open_store

    path = paths.existing(database, cloud)
    clock = SystemClock()
    since_us = 0 if since_s is None else clock.now_us() - int(since_s * 1e6)

    async def read() -> tuple[report.Sum, report.Now]:
        async with open_store(f"sqlite:///{path}", clock=clock, with_engine_lock=False) as store:
            return await store.read(lambda conn: report.read(conn, since_us=since_us))

    found, here = asyncio.run(read())
    Output(as_json=as_json).lines(
        report.as_json(cloud, found, here), report.lines(cloud, found, here)
    )

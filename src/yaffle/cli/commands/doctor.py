"""`yaffle doctor`: what healing depends on, looked at from here and, where one runs, from the server."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from yaffle.cli import settings
from yaffle.cli.client.native import Api, Refused, Row, ServerAway, items
from yaffle.cli.command import Json, OsCloud, Server, TokenFile
from yaffle.cli.exit_codes import ExitCode
from yaffle.cli.output import Output
from yaffle.cli.settings import Config, Database, StateDir
from yaffle.errors import ConfigError, DependencyError

if TYPE_CHECKING:
    from yaffle.config import Settings


def doctor(
    config: Config = None,
    database: Database = None,
    state_dir: StateDir = None,
    server: Server = None,
    token_file: TokenFile = None,
    os_cloud: OsCloud = None,
    *,
    as_json: Json = False,
) -> None:
    """Look at everything that healing depends on; works with the server down, too.

    With --config or --state-dir it is that installation's server that is asked, and no other; where
    nothing is named, that of the service of this machine (/etc/yaffle/yaffle.toml), if there is one.
    Exit 1 when something is wrong, 5 when only the server is away.
    """
    here: list[Row] = []
    of_service = settings.of_service(config, database, state_dir)
    serve = _serve(config, database, state_dir)
    if of_service:
        serve = "`systemctl start yaffle`"
    found = _here(here, serve, config, database, state_dir)
    if of_service and server is not None and not os.access(settings.SERVICE, os.R_OK):
        # Whoever names a server need not be of those who may read the settings of this machine's.
        here[0] = {**here[0], "status": "warn"}
    named = of_service or config is not None or state_dir is not None
    folder = found.state_dir if found and named else None
    reached = partial(Api, server, token_file, os_cloud=os_cloud, folder=folder)
    there, away = _there(reached, serve)
    if named and found is None and server is None:
        # Whose server that is stands in what could not be read.
        there, away = [], False
    checks = [*here, *there]
    wrong = any(check["status"] not in {"ok", "warn", "away"} for check in checks)
    warned = any(check["status"] == "warn" for check in checks)
    verdict = "fail" if wrong else "away" if away else "warn" if warned else "ok"
    output = Output(as_json=as_json)
    output.table(
        {"status": verdict, "checks": checks},
        checks,
        [("CHECK", "name"), ("STATUS", "status"), ("DETAIL", "detail")],
        empty="",
    )
    if not as_json:
        for check in checks:
            if check["status"] != "ok" and check.get("advice"):
                print(f"\n{check['name']}: {check['advice']}")
    if wrong or away:
        raise typer.Exit(ExitCode.FAILED if wrong else ExitCode.AWAY)


def _check(name: str, status: str, detail: str, advice: str = "") -> Row:
    return {"name": name, "status": status, "detail": detail, "advice": advice}


def _serve(config: Path | None, database: str | None, state_dir: Path | None) -> str:
    """Return the command that starts the server of this installation."""
    given = {"--config": config, "--database": database, "--state-dir": state_dir}
    flags = [word for flag, value in given.items() if value for word in (flag, str(value))]
    return f"`{shlex.join(['yaffle', 'serve', *flags])}`"


def _here(
    told: list[Row], serve: str, config: Path | None, database: str | None, state_dir: Path | None
) -> Settings | None:
    """Tell what can be seen from here; return the settings, None where they cannot be read."""
    path = settings.SERVICE if settings.of_service(config, database, state_dir) else config
    try:
        found = settings.of_installation(config, database=database, state_dir=state_dir)
    except ConfigError as error:
        told += _faults(error, "mend the setting named")
        return None
    told += _config(path, found)
    looks = (("state directory", _state_dir), ("disk", _disk), ("database", _database))
    for name, look in looks:
        try:
            told.append(look(found))
        except ConfigError as error:
            told.append(
                _check(
                    f"here: {name}", "warn", str(error), f"it is made at the first start: {serve}"
                )
            )
    return found


def _config(path: Path | None, found: Settings) -> list[Row]:
    """Return whether a server would start with these settings."""
    from yaffle.cli.serve import process

    try:
        process.check(found)
    except ConfigError as error:
        advice = "mend the setting named: `yaffle serve` does not start like this"
        return _faults(error, advice)
    return [_check("here: config", "ok", str(path or "defaults and environment"))]


def _faults(error: ConfigError, advice: str) -> list[Row]:
    """Return one row for each thing that is wrong; what to do about them is said once."""
    first, *others = error.problems
    rest = [_check("here: config", "fail", problem) for problem in others]
    return [_check("here: config", "fail", first, advice), *rest]


def _state_dir(found: Settings) -> Row:
    name, path = "here: state directory", found.state_dir
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    if not stat.S_ISDIR(mode):
        return _check(name, "fail", f"{path} is no directory", "name another with --state-dir")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        detail = f"{path} is open to others (mode {stat.S_IMODE(mode):04o})"
        return _check(name, "fail", detail, f"it holds commands and secrets: chmod 700 {path}")
    return _check(name, "ok", f"{path} (mode {stat.S_IMODE(mode):04o})")


def _disk(found: Settings) -> Row:
    from yaffle.api.diagnostics import disk
    from yaffle.store.dialects import place_of

    path = place_of(found.database_url).path
    folder = path.parent if path else found.state_dir
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder")
    check = disk.look(folder)
    return _check("here: disk", check.status.value, check.detail, check.advice)


def _database(found: Settings) -> Row:
    from yaffle.engine.runtime.clock import SystemClock
    from yaffle.store import doctor as store_doctor

    facts = store_doctor.check(found.database_url, clock=SystemClock())
    detail = f"{facts.database}: {facts.size_bytes} bytes, schema {facts.schema}"
    if facts.outbox_pending:
        detail += f", {facts.outbox_pending} messages on their way"
    if facts.problems:
        return _check("here: database", "fail", detail, "; ".join(facts.problems))
    return _check("here: database", "ok", detail)


def _there(reached: Callable[[], Api], serve: str) -> tuple[list[Row], bool]:
    """Return the server's own checks, and whether it is away."""
    checks: list[Row] = []

    def ask(what: Callable[[], Row]) -> Row:
        try:
            return what()
        except ServerAway as error:
            checks.append(
                _check(
                    "server",
                    "away",
                    str(error),
                    f"start it with {serve}, or name another with --server",
                )
            )
        except (Refused, ConfigError, DependencyError) as error:
            checks.append(_check("server", "fail", str(error)))
        return {}

    def examine() -> Row:
        from yaffle.cli.client.deadlines import Deadline, limited

        with reached() as api:
            checks.append(_check("server", "ok", api.url))
            try:
                # A doctor says how it is now, not how it will be.
                with limited(Deadline(0)):
                    return api.get("doctor")
            except ServerAway:
                checks.pop()
                raise

    report = ask(examine)
    return [*checks, *items(report, "checks")], any(c["status"] == "away" for c in checks)

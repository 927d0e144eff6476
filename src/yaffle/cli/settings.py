"""The flags that change settings, shared by the commands that read the configuration themselves."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from yaffle.cli.output import note
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from yaffle.config import Settings, Unusable

SERVICE: Final = Path("/etc/yaffle/yaffle.toml")
"""The configuration of whoever runs Yaffle as a service: see docs/howto/run-as-a-service.md."""
SERVICE_STATE_DIR: Final = Path("/var/lib/yaffle")
"""What `yaffle.service` sets where neither its settings nor its variables name another."""
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", envvar="YAFFLE_CONFIG", metavar="FILE", help="Settings, as TOML; see the docs."
    ),
]
Database = Annotated[
    str | None,
    typer.Option("--database", metavar="URL", help="e.g. sqlite:////var/lib/yaffle/yaffle.db"),
]
StateDir = Annotated[
    Path | None,
    typer.Option("--state-dir", metavar="DIR", help="Database, node records, workflow jobs."),
]


def load(
    config: Path | None,
    *,
    database: str | None = None,
    state_dir: Path | None = None,
    listen: str | None = None,
    engine_listen: str | None = None,
    allow_local_process: bool = False,
    token_file: Path | None = None,
    users_file: Path | None = None,
) -> Settings:
    """Return the settings: file, then environment, then these flags; raise ConfigError.

    Where they are wrong, what is wrong with the drivers' own is told as well.
    """
    from yaffle.config import Unusable
    from yaffle.config import load as load_file

    server = {"listen": listen, "token_file": token_file, "users_file": users_file}
    flags: dict[str, object] = {
        "state_dir": state_dir,
        "server": {key: value for key, value in server.items() if value is not None} or None,
        "database": None if database is None else {"url": database},
        "engine": None if engine_listen is None else {"listen": engine_listen},
        "local_process": {"enabled": True} if allow_local_process else None,
    }
    try:
        return load_file(config, {key: value for key, value in flags.items() if value is not None})
    except Unusable as error:
        raise ConfigError([*error.problems, *_of_drivers(error)]) from None


def _of_drivers(error: Unusable) -> Sequence[str]:
    """Return what is wrong besides: one start tells all of it."""
    from yaffle import wiring

    if error.rest is None:
        return ()
    try:
        wiring.check(error.rest, error.broken)
    except ConfigError as more:
        return error.rest.origin.located(more.problems)
    return ()


def of_installation(
    config: Path | None,
    *,
    database: str | None = None,
    state_dir: Path | None = None,
    service: Path | None = None,
) -> Settings:
    """As `load`; where nothing says which installation is meant, that of the service, if there is one.

    Else a command would speak of another database than the service that it was typed for. Typed as
    root it goes on as the service's user: root would leave files that the service cannot use, and
    call private or readable what is not so for the service.
    """
    service = service or SERVICE
    if not of_service(config, database, state_dir, service):
        return load(config, database=database, state_dir=state_dir)
    user = ""
    try:
        # What the units read beside it wins over it, and what was typed over both.
        for name, value in _variables(service.with_suffix(".env")).items():
            os.environ.setdefault(name, value)
        found = _of_unit(service)
        if user := _become_user(service, found.state_dir):
            found = _of_unit(service)
    except ConfigError as error:
        why = "; run it as the user of the service, or name another installation"
        *others, last = error.problems
        raise ConfigError([*others, f"{last}{why}"]) from None
    finally:
        who = f"as {user}, " if user else ""
        note(
            f"{who}with the settings of {service}; --config, --state-dir or --database name others"
        )
    return found


def _of_unit(service: Path) -> Settings:
    found = load(service)
    named = "state_dir" in found.model_fields_set
    return found if named else load(service, state_dir=SERVICE_STATE_DIR)


def _become_user(service: Path, state_dir: Path) -> str:
    """Go on as the service's user where we are root, and return its name; else empty.

    It owns the state directory. Before the first start there is none: then it is whose group may read
    the settings.
    """
    if os.geteuid() != 0:
        return ""
    try:
        uid = state_dir.stat().st_uid
    except OSError:
        group = service.stat().st_gid
        uid = next((one.pw_uid for one in pwd.getpwall() if one.pw_gid == group), 0)
    if uid == 0:
        return ""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        raise ConfigError(f"{state_dir} belongs to {uid}, and there is no such user") from None
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    return user.pw_name


def of_service(
    config: Path | None, database: str | None, state_dir: Path | None, service: Path | None = None
) -> bool:
    """Whether there is a service, and nothing names another installation."""
    named = any(name.startswith(("YAFFLE_STATE_DIR", "YAFFLE_DATABASE")) for name in os.environ)
    return not (named or config or database or state_dir) and _there(service or SERVICE)


def _variables(file: Path) -> Mapping[str, str]:
    """Return Yaffle's variables of a unit's EnvironmentFile: one NAME=value a line (systemd.exec(5))."""
    try:
        lines = file.read_text().splitlines() if _there(file) else []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None
    pairs = (line.strip().partition("=") for line in lines)
    return {k: v.strip().strip("\"'") for k, eq, v in pairs if eq and k.startswith("YAFFLE_")}


def _there(file: Path) -> bool:
    """Whether there is such a file; what cannot be looked at may be one, and is refused when read."""
    try:
        file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True

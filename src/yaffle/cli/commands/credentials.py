"""`yaffle credential …`: what projects have handed to us, in the database; no server is needed."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yaffle.cli import settings
from yaffle.cli.command import Json, group
from yaffle.cli.output import Output, clock_time
from yaffle.cli.settings import Config, Database, StateDir

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from yaffle.config import Settings
    from yaffle.integrations.openstack import CloudsYaml
    from yaffle.integrations.secret_box import KeyFile
    from yaffle.model.credentials import Credential
    from yaffle.store.credentials import CredentialRow
    from yaffle.store.database import Store

ASK_S = 30.0
SECRET_MAX = 4096

app = group("What projects have handed to Yaffle so that it may act in their clouds.")

CloudName = Annotated[
    str | None,
    typer.Option(
        "--cloud",
        metavar="NAME",
        help="The cloud, by its name in the drivers' settings. Default: the only one there.",
    ),
]
Ident = Annotated[str, typer.Argument(metavar="ID", help="Its id, or the beginning of that.")]


@app.command("add")
def add(
    ident: Annotated[
        str, typer.Option("--id", metavar="ID", help="The application credential's id.")
    ],
    project: Annotated[
        str | None,
        typer.Option(
            "--project",
            metavar="PROJECT",
            help="Whose nodes it is for, as Yaffle calls that project. Default: its own project's id.",
        ),
    ] = None,
    cloud: CloudName = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            "--secret-file",
            metavar="FILE",
            help="File whose first line is the secret. Default: the first line of the input.",
        ),
    ] = None,
    config: Config = None,
    database: Database = None,
    state_dir: StateDir = None,
    *,
    as_json: Json = False,
) -> None:
    """Take an application credential into use: it is tried first, then sealed and stored.

    Another one of the same user and project is replaced; running engines take it up within seconds.
    """
    import asyncio

    # First: whoever types this may read the file, the service's user need not.
    secret = _secret(secret_file)
    found = settings.of_installation(config, database=database, state_dir=state_dir)
    row, replaced = asyncio.run(_add(found, cloud, ident, secret, project))
    said = "in place of the one before" if replaced else "added"
    Output(as_json=as_json).say(
        {**_shown(row), "replaced": replaced},
        f"application credential {row.reference} for project {row.project} in cloud {row.cloud}: {said}",
    )


@app.command("list")
def list_(
    project: Annotated[
        str | None, typer.Option("--project", metavar="PROJECT", help="Of this project alone.")
    ] = None,
    config: Config = None,
    database: Database = None,
    state_dir: StateDir = None,
    *,
    as_json: Json = False,
) -> None:
    """List what there is, without its secrets."""
    import asyncio

    found = settings.of_installation(config, database=database, state_dir=state_dir)
    rows = [_shown(row) for row in asyncio.run(_every(found, project))]
    Output(as_json=as_json).table(
        {"credentials": rows},
        rows,
        [
            ("ID", lambda row: str(row["id"])[:8]),
            ("CLOUD", "cloud"),
            ("PROJECT", "project"),
            ("USER", "user"),
            ("KIND", "kind"),
            ("REFERENCE", "reference"),
            ("KEY", "key_id"),
            ("LAST USED", lambda row: clock_time(row["used_us"])),
            ("REFUSED", lambda row: row["refused_why"] or "-"),
        ],
        empty="no credentials",
    )


@app.command("remove")
def remove(
    ident: Ident,
    config: Config = None,
    database: Database = None,
    state_dir: StateDir = None,
    *,
    as_json: Json = False,
) -> None:
    """Forget a credential: its project's nodes are unknown from then on, unless there is another.

    In the cloud it goes on being valid; revoke it there.
    """
    import asyncio

    found = settings.of_installation(config, database=database, state_dir=state_dir)
    row = asyncio.run(_remove(found, ident))
    Output(as_json=as_json).say(
        {"removed": row.id},
        f"{row.kind} {row.reference} of project {row.project}: forgotten; revoke it in the cloud",
    )


@app.command("rotate")
def rotate(
    config: Config = None,
    database: Database = None,
    state_dir: StateDir = None,
    *,
    as_json: Json = False,
) -> None:
    """Seal everything with the newest key; after that the older ones may go from the file."""
    import asyncio

    found = settings.of_installation(config, database=database, state_dir=state_dir)
    done, kept, key_id = asyncio.run(_rotate(found))
    Output(as_json=as_json).say(
        {"sealed": done, "already": kept, "key_id": key_id},
        f"key {key_id}: {done} sealed anew, {kept} already were",
    )


@app.command("new-key")
def new_key(
    file: Annotated[
        Path,
        typer.Option(
            "--file",
            envvar="YAFFLE_CREDENTIALS__KEYS_FILE",
            metavar="FILE",
            help="The file of keys. Default: the variable YAFFLE_CREDENTIALS__KEYS_FILE.",
        ),
    ],
    *,
    as_json: Json = False,
) -> None:
    """Put a new key before the others of the file, or make the file; then copy it to every machine."""
    from yaffle.integrations.secret_box import add_key

    key_id = add_key(file)
    Output(as_json=as_json).say(
        {"file": str(file), "key_id": key_id},
        f"{file}: key {key_id} seals from now on; keep a copy apart from the database's backups",
    )


# --- the work -----------------------------------------------------------------------------------


async def _add(
    found: Settings, cloud: str | None, reference: str, secret: str, project: str | None
) -> tuple[CredentialRow, bool]:
    from yaffle.engine.runtime.clock import SystemClock
    from yaffle.engine.runtime.stored_credentials import sealed_row
    from yaffle.store import credentials as rows

    keys, at = _keys(found), _place(found, cloud)
    credential = await _tried(found, at, reference, secret, project)
    row = sealed_row(keys, credential, SystemClock().now_us())
    async with _store(found) as store:
        replaced = await store.write(lambda conn: rows.put(conn, row))
    return row, replaced


async def _tried(
    found: Settings, at: CloudsYaml, reference: str, secret: str, project: str | None
) -> Credential:
    """Return the credential with the project and user that Keystone says it is of."""
    from dataclasses import replace

    from yaffle.engine.runtime.clock import SystemClock
    from yaffle.errors import BadRequest, DependencyError, YaffleError
    from yaffle.integrations.openstack import Client, Cloud, ForProject
    from yaffle.model.credentials import Credential, CredentialKind

    credential = Credential(
        id="",
        cloud=at.name,
        project=project or "",
        user="",
        kind=CredentialKind.APPLICATION_CREDENTIAL,
        reference=reference,
        secret=secret,
    )

    def ask(client: Client) -> tuple[str, str]:
        return client.project_id, client.user_id

    trying = Cloud(ForProject(at=at, credential=credential), SystemClock(), threads=1)
    try:
        home, user = await trying.call(ask, ASK_S)
    except (TimeoutError, YaffleError) as error:
        raise DependencyError(
            f"cloud {at.name}: the application credential {reference} did not work: {error}",
            hint="nothing was stored",
        ) from None
    finally:
        trying.close()
    if found.server.keystone is not None and project not in (None, home):
        raise BadRequest(
            f"the application credential {reference} is of project {home}, not of {project}",
            hint="with server.keystone projects are Keystone's own; leave --project out",
        )
    return replace(credential, project=project or home, user=user)


async def _every(found: Settings, project: str | None) -> list[CredentialRow]:
    from yaffle.store import credentials as rows

    async with _store(found) as store:
        return list(await store.read(lambda conn: rows.every(conn, project=project)))


async def _remove(found: Settings, ident: str) -> CredentialRow:
    from yaffle.errors import MultipleChoices, NotFound
    from yaffle.store import credentials as rows

    async with _store(found) as store:
        all_of_them = await store.read(rows.every)
        meant = [row for row in all_of_them if ident and row.id.startswith(ident)]
        if not meant:
            raise NotFound(f"credential {ident!r}: there is none", hint="`yaffle credential list`")
        if len(meant) > 1:
            raise MultipleChoices(f"credential {ident!r}: {len(meant)} begin like that")
        await store.write(lambda conn: rows.remove(conn, meant[0].id))
    return meant[0]


async def _rotate(found: Settings) -> tuple[int, int, str]:
    """Seal anew, one by one; what cannot be opened is left as it is, and told at the end."""
    from yaffle.engine.runtime.stored_credentials import sealed_again
    from yaffle.integrations.secret_box import SealBroken
    from yaffle.model.credentials import CredentialKind
    from yaffle.store import credentials as rows

    keys = _keys(found)
    done, kept, broken = 0, 0, list[SealBroken]()
    async with _store(found) as store:
        for row in await store.read(rows.every):
            if row.kind == CredentialKind.SUPERSEDED_TRUST:
                # It is never opened again.
                continue
            try:
                fresh = sealed_again(keys, row)
            except SealBroken as error:
                broken.append(error)
                continue
            if fresh is None:
                kept += 1
                continue
            blob, key_id = fresh.blob, fresh.key_id
            done += await store.write(
                lambda c, row=row, blob=blob, key_id=key_id: rows.sealed_anew(  # type: ignore[misc]
                    c, row, sealed=blob, key_id=key_id
                )
            )
    if broken:
        lines = "\n".join(
            f"{error}; {error.hint}" if error.hint else str(error) for error in broken
        )
        raise SealBroken(f"{done} sealed anew, and these are as they were:\n{lines}")
    return done, kept, keys.newest


# --- what it takes ------------------------------------------------------------------------------


@asynccontextmanager
async def _store(found: Settings) -> AsyncIterator[Store]:
    from yaffle.engine.runtime.clock import SystemClock
    from yaffle.store.database import open_store

    clock = SystemClock()
    async with open_store(found.database_url, clock=clock, with_engine_lock=False) as store:
        yield store


def _keys(found: Settings) -> KeyFile:
    from yaffle.errors import ConfigError
    from yaffle.integrations.secret_box import SETTING, KeyFile

    path = found.credentials.keys_file
    if path is None:
        raise ConfigError(
            f"{SETTING} is not set: there is no key to seal with",
            hint="make one with `yaffle credential new-key --file FILE`, and name it there",
        )
    keys = KeyFile(path)
    keys.check()
    return keys


def _place(found: Settings, cloud: str | None) -> CloudsYaml:
    from yaffle.errors import ConfigError
    from yaffle.integrations.openstack.credentials import projects_clouds

    known = projects_clouds(found.drivers)
    if cloud is None and len(known) == 1:
        return next(iter(known.values()))
    if cloud is None or cloud not in known:
        names = ", ".join(sorted(known)) or "none"
        raise ConfigError(
            f"which cloud? drivers act with the credentials of projects in: {names}",
            hint='say it with --cloud, and set `credentials = "projects"` in the drivers\' sections',
        )
    return known[cloud]


def _secret(file: Path | None) -> str:
    """Return the secret from a file or from the input, never from the command line."""
    from yaffle.errors import ConfigError

    if file is not None:
        try:
            with file.open("rb") as opened:
                secret = opened.readline(SECRET_MAX).decode("utf-8", "replace")
        except OSError as error:
            raise ConfigError(f"--secret-file {file}: {error.strerror}") from None
    elif sys.stdin.isatty():
        secret = str(typer.prompt("Secret", hide_input=True))
    else:
        secret = sys.stdin.readline(SECRET_MAX)
    secret = secret.strip()
    if not secret:
        raise ConfigError("the secret is empty", hint="give it on the input or in --secret-file")
    return secret


def _shown(row: CredentialRow) -> dict[str, object]:
    return {
        "id": row.id,
        "cloud": row.cloud,
        "project": row.project,
        "user": row.user,
        "kind": row.kind,
        "reference": row.reference,
        "key_id": row.key_id,
        "created_us": row.created_us,
        "used_us": row.used_us,
        "refused_us": row.refused_us,
        "refused_why": row.refused_why,
    }

"""`yaffle user …`: the people of a server that asks for names and passwords; no server is needed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yaffle.cli.command import Json, group
from yaffle.cli.output import Output

if TYPE_CHECKING:
    from yaffle.api.auth.passwords import Hash
    from yaffle.api.auth.users import User

app = group("People who may ask: the file of names and hashed passwords (server.users_file).")

File = Annotated[
    Path,
    typer.Option(
        "--file",
        envvar="YAFFLE_SERVER__USERS_FILE",
        metavar="FILE",
        help="The users file. Default: the variable YAFFLE_SERVER__USERS_FILE.",
    ),
]
Name = Annotated[str, typer.Argument(help="The user's name.")]
Stdin = Annotated[
    bool,
    typer.Option("--password-stdin", help="Read the password from the first line of the input."),
]


@app.command("add")
def add(
    name: Name,
    file: File,
    project: Annotated[
        str, typer.Option("--project", help="The project that they work in.")
    ] = "default",
    roles: Annotated[
        str,
        typer.Option(
            "--roles",
            help="reader, member or admin; with a comma also fence and override.",
        ),
    ] = "member",
    *,
    password_stdin: Stdin = False,
    as_json: Json = False,
) -> None:
    """Add somebody; the server knows them within a second."""
    from yaffle.api.auth import passwords, users
    from yaffle.api.auth.user_file_writer import rewrite
    from yaffle.errors import Conflict

    words = tuple(word.strip() for word in roles.split(","))
    # Judged before anybody has to think of a password.
    _built(name, passwords.decoy(passwords.DEFAULT), project, words)
    user = _built(name, passwords.hashed(_password(given=password_stdin)), project, words)

    def change(text: str) -> str:
        if any(one.name == name for one in users.parsed(file, text)):
            raise Conflict(
                f"user {name!r} is there already",
                hint=f"change them with `yaffle user passwd {name} --file {shlex.quote(str(file))}`",
            )
        return users.with_user(text, user)

    rewrite(file, change, create=True)
    Output(as_json=as_json).say(_shown(user), f"{name}: added")


@app.command("list")
def list_(file: File, *, as_json: Json = False) -> None:
    """List the people, without their hashes."""
    found = [_shown(user) for user in _read(file)]
    Output(as_json=as_json).table(
        {"users": found},
        found,
        [
            ("NAME", "name"),
            ("PROJECT", "project"),
            ("ROLES", "roles"),
            ("MAY", "may"),
        ],
        empty="no users",
    )


@app.command("remove")
def remove(name: Name, file: File, *, as_json: Json = False) -> None:
    """Remove somebody; the server refuses them within a second."""
    from yaffle.api.auth import users
    from yaffle.api.auth.user_file_writer import rewrite

    def change(text: str) -> str:
        _known(users.parsed(file, text), name)
        return users.without_user(text, name)

    rewrite(file, change)
    Output(as_json=as_json).say({"removed": name}, f"{name}: removed")


@app.command("passwd")
def passwd(name: Name, file: File, *, password_stdin: Stdin = False, as_json: Json = False) -> None:
    """Give somebody another password; project and roles stay."""
    from yaffle.api.auth import users
    from yaffle.api.auth.user_file_writer import rewrite

    _known(_read(file), name)
    password = _password(given=password_stdin)

    def change(text: str) -> str:
        user = _known(users.parsed(file, text), name)
        return users.with_user(text, users.with_password(user, password))

    rewrite(file, change)
    Output(as_json=as_json).say({"changed": name}, f"{name}: another password")


def _read(file: Path) -> tuple[User, ...]:
    from yaffle.api.auth import users
    from yaffle.api.auth.secure_file import read_private

    return users.parsed(file, read_private(file, users.SETTING))


def _built(name: str, hash_: Hash, project: str, roles: tuple[str, ...]) -> User:
    from yaffle.api.auth.users import User
    from yaffle.errors import ConfigError

    try:
        return User(name=name, hash=hash_, project=project, roles=roles)
    except ValueError as fault:
        raise ConfigError(f"user {name!r} {fault}") from None


def _known(present: Sequence[User], name: str) -> User:
    from yaffle.errors import NotFound

    for user in present:
        if user.name == name:
            return user
    raise NotFound(f"user {name!r}: there is none", hint="see `yaffle user list --file FILE`")


def _password(*, given: bool) -> str:
    """Return the password from the input, or asked for twice without showing it."""
    from yaffle.api.auth import passwords
    from yaffle.errors import ConfigError

    if given:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    fault = passwords.fault(password)
    if fault is not None:
        raise ConfigError(fault)
    return password


def _shown(user: User) -> dict[str, object]:
    return {
        "name": user.name,
        "project": user.project,
        "roles": list(user.roles),
        "may": sorted(right.value for right in user.who.rights),
    }

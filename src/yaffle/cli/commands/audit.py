"""`yaffle audit verify`: whether the audit log is what was written."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Annotated

import typer

from yaffle.cli import settings
from yaffle.cli.command import group
from yaffle.cli.output import Output, note
from yaffle.cli.settings import Config, StateDir

app = group("The audit log: who changed what, and who was refused (STATE_DIR/audit).")

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Expect = Annotated[
    str | None,
    typer.Option(
        "--expect",
        metavar="NUMBER:HASH",
        help="A line that has to be there, as an earlier `verify` printed it.",
    ),
]
Role = Annotated[
    str | None,
    typer.Option("--role", help="Whose log: serve, api or engine; default: all there are."),
]


@app.command("verify")
def verify(
    config: Config = None,
    state_dir: StateDir = None,
    expect: Expect = None,
    role: Role = None,
    *,
    as_json: Json = False,
) -> None:
    """Read the whole log and tell what was changed, removed or added; exit 1 if anything was.

    Keep the number and hash that it prints elsewhere, and give them back with --expect: whoever may
    write the files could write all of them anew.
    """
    from yaffle.api.audit.verifying import roles_in
    from yaffle.api.audit.verifying import verify as read
    from yaffle.errors import ConfigError

    folder = settings.of_installation(config, state_dir=state_dir).state_dir / "audit"
    wanted = None if expect is None else _expected(expect)
    output = Output(as_json=as_json)
    roles = roles_in(folder) if role is None else [role]
    if wanted is not None and len(roles) > 1:
        raise ConfigError(f"--expect is of one log: name it with --role ({', '.join(roles)})")
    found = [read(folder, each, wanted) for each in roles]
    for one in found:
        facts = asdict(one)
        output.facts(facts, [(k, v) for k, v in facts.items() if k != "problems"])
        for problem in one.problems:
            note(f"problem: {problem}")
    if any(one.problems for one in found):
        raise typer.Exit(1)


def _expected(text: str) -> tuple[int, str]:
    from yaffle.errors import ConfigError

    match = re.fullmatch(r"([0-9]{1,18}):([0-9a-f]{64})", text)
    if match is None:
        raise ConfigError(f"--expect {text!r} is not NUMBER:HASH as `yaffle audit verify` prints")
    return int(match[1]), match[2]

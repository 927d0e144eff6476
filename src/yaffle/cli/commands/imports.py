"""`yaffle import …`: taking over what another system holds, planned aloud before anything is done."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yaffle.cli.client.native import Api, Row, inner, items
from yaffle.cli.command import client, group
from yaffle.cli.exit_codes import ExitCode
from yaffle.cli.output import Output, note, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yaffle.cli.commands.import_batches import Key

app = group("Take over what another system holds.")

Source = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="URL|FILE",
        help="Endpoint of a live Senlin (http://HOST:8777), or a JSON dump of its API or tables.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="OS_TOKEN",
        help="Keystone token for the Senlin; better as OS_TOKEN, where no process list shows it.",
    ),
]
User = Annotated[str | None, typer.Option("--user", help="Name for HTTP basic at the Senlin.")]
Password = Annotated[
    str | None,
    typer.Option(
        "--password",
        envvar="SENLIN_PASSWORD",
        help="Password for HTTP basic; better as SENLIN_PASSWORD.",
    ),
]
AllProjects = Annotated[
    bool,
    typer.Option("--all-projects", help="Read every project of the Senlin, as an administrator."),
]
Project = Annotated[
    str | None,
    typer.Option("--project", help="Put everything into this project. Default: as it was."),
]
Apply = Annotated[
    bool, typer.Option("--apply", help="Do it. Without this, only say what would be.")
]
SkipRefused = Annotated[
    bool,
    typer.Option("--skip-refused", help="With --apply: take over the rest of what is refused."),
]


@client(app, "senlin")
def senlin(
    api: Api,
    output: Output,
    source: Source,
    token: Token = None,
    user: User = None,
    password: Password = None,
    *,
    all_projects: AllProjects = False,
    project: Project = None,
    apply: Apply = False,
    skip_refused: SkipRefused = False,
) -> None:
    """Take over profiles, policies, clusters, nodes and webhooks under the ids that they have."""
    from yaffle.cli.commands.senlin_source import from_file, from_server, headers_of, is_url

    if is_url(source):
        headers = headers_of(token, user, password)
        lists = from_server(source, headers=headers, all_projects=all_projects, tell=note)
    else:
        lists = from_file(Path(source))
    plan = _Asked(api, project).dry(lists)
    refused = [row for row in plan if row.get("outcome") == "refuse"]
    if apply and (skip_refused or not refused):
        _told(output, _Asked(api, project).real(lists), dry_run=False)
        return
    _told(output, plan, dry_run=True)
    if apply:
        note("nothing was done; mend what is refused, or add --skip-refused to go on without it")
    elif any(row.get("outcome") == "create" for row in plan):
        _warn(api, plan)
        note("nothing was done; add --apply to do it")
    if refused:
        raise typer.Exit(ExitCode.FAILED)


class _Asked:
    """Asks the server piece by piece."""

    def __init__(self, api: Api, project: str | None) -> None:
        self._api = api
        self._project = {} if project is None else {"project": project}

    def dry(self, lists: Mapping[str, Sequence[Row]]) -> list[Row]:
        """Return what would become of every object."""
        from yaffle.cli.commands.import_batches import Pieces

        found: list[Row] = []
        assumable: set[Key] = set()
        for piece in Pieces(lists):
            said = self._post({"dry_run": True, **piece.body(assumable)})
            assumable |= {
                (str(row["kind"]), str(row["id"])) for row in said if row["outcome"] == "create"
            }
            found += said
            note(f"planned {len(said)} {piece.kind}")
        return found

    def real(self, lists: Mapping[str, Sequence[Row]]) -> list[Row]:
        """Do it; return what became of every object. What breaks off is run again."""
        from yaffle.cli.commands.import_batches import Pieces

        found: list[Row] = []
        for piece in Pieces(lists):
            found += self._post({"dry_run": False, piece.kind: piece.rows})
            note(f"imported {len(piece.rows)} {piece.kind}")
        return found

    def _post(self, body: Row) -> list[Row]:
        answer = self._api.post("import", body={**body, **self._project})
        return list(items(inner(answer, "import"), "items"))


def _told(output: Output, found: Sequence[Row], *, dry_run: bool) -> None:
    """Print every object but the nodes that nothing is to be said of; those are counted."""
    counts = Counter(str(row.get("outcome")) for row in found)
    data = {"import": {"dry_run": dry_run, "counts": dict(counts), "items": list(found)}}
    rows = [row for row in found if not _is_plain(row)]
    output.table(
        data,
        rows,
        [
            ("OUTCOME", "outcome"),
            ("KIND", "kind"),
            ("NAME", "name"),
            ("ID", "id"),
            ("WHY", _why),
        ],
        empty="nothing to say of any object",
    )
    if not output.as_json:
        silent = Counter(str(row.get("outcome")) for row in found if _is_plain(row))
        for outcome, count in sorted(silent.items()):
            print(f"{outcome}: {count} more nodes")
        print(f"{'plan' if dry_run else 'done'}: {shown(dict(sorted(counts.items())))}")


def _is_plain(row: Row) -> bool:
    return row.get("kind") == "nodes" and not _why(row)


def _why(row: Row) -> str:
    parts = [row.get("reasons"), row.get("notes")]
    return "; ".join(str(text) for part in parts if isinstance(part, list) for text in part)


def _warn(api: Api, plan: Sequence[Row]) -> None:
    """Say what two healers would do to each other."""
    bound = any(r.get("kind") == "cluster_policies" and r.get("outcome") == "create" for r in plan)
    if bound and not api.get("stop").get("stopped"):
        note(
            "attached health policies are in force at once: while Senlin still heals the same nodes,"
            " stop all healing here first (`yaffle stop --all --reason WHY`) and lift that once"
            " Senlin is off"
        )

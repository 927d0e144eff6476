"""`yaffle maintenance …` and `yaffle stop`: a person's reasons for Yaffle not to act."""

from __future__ import annotations

from typing import Annotated

import typer

from yaffle.cli import durations
from yaffle.cli.client.native import Api, Row, inner, items, rows
from yaffle.cli.command import client, group
from yaffle.cli.output import Column, Output, clock_time, short
from yaffle.errors import ConfigError

app = group("Maintenance: planned work, watched and left alone.")

Reason = Annotated[str, typer.Option("--reason", help="Why, for whoever finds this at night.")]
For = Annotated[
    float | None,
    typer.Option(
        "--for",
        parser=durations.option,
        metavar="TIME",
        help="How long, e.g. 90s, 15m, 2h, 1d. Default: until it is lifted.",
    ),
]


def _until(row: Row) -> str:
    if row.get("lifted_us") is not None:
        return f"lifted by {row.get('lifted_by')}"
    if row.get("expires_us") is None:
        return "somebody lifts it"
    return clock_time(row.get("expires_us"))


_COLUMNS: list[Column] = [
    ("ID", lambda row: short(row.get("id"))),
    ("SCOPE", lambda row: f"{row.get('scope')} {row.get('target') or ''}".strip()),
    ("BY", "owner"),
    ("SINCE", lambda row: clock_time(row.get("starts_us"))),
    ("UNTIL", _until),
    ("REASON", "reason"),
]


@client(app, "start")
def start(
    api: Api,
    output: Output,
    reason: Reason,
    node: Annotated[str | None, typer.Option("--node", help="This node.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="This cluster.")] = None,
    host: Annotated[str | None, typer.Option("--host", help="This host, and all on it.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    for_: For = None,
) -> None:
    """Begin planned work: what it covers is watched, and not healed."""
    named = (("node", node), ("cluster", cluster), ("host", host))
    chosen = [(scope, target) for scope, target in named if target is not None]
    chosen += [("all", "")] if everything else []
    if len(chosen) != 1:
        raise ConfigError(
            "maintenance start: give exactly one of --node, --cluster, --host and --all"
        )
    (scope, target) = chosen[0]
    begin(api, output, scope, target, reason, for_)


def begin(
    api: Api, output: Output, scope: str, target: str, reason: str, for_: float | None
) -> None:
    """Begin planned work, and say how it is ended."""
    body: dict[str, object] = {"scope": scope, "target": target, "reason": reason}
    if for_ is not None:
        body["for_s"] = for_
    answer = api.post("maintenance", body=body)
    ident = inner(answer, "maintenance").get("id")
    what = f"{scope} {target}".strip() if target else "everything"
    output.say(
        answer, f"maintenance of {what} began; end it: yaffle maintenance end {short(ident)}"
    )


@client(app, "list")
def list_(
    api: Api,
    output: Output,
    everything: Annotated[bool, typer.Option("--all", help="Also what is over.")] = False,
) -> None:
    """List maintenance in force."""
    answer = api.get("maintenance", all="true" if everything else None)
    output.table(answer, rows(answer, "maintenance"), _COLUMNS, empty="no maintenance")


@client(app, "end")
def end(
    api: Api,
    output: Output,
    ident: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")],
) -> None:
    """End planned work before its time."""
    api.delete("maintenance", ident)
    output.say({"ended": ident}, f"maintenance {ident} ended")


def stop(
    api: Api,
    output: Output,
    everything: Annotated[bool, typer.Option("--all", help="Stop all healing.")] = False,
    lift: Annotated[bool, typer.Option("--lift", help="Lift the stop.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Say whether there is one.")] = False,
    for_: For = None,
    reason: Annotated[str, typer.Option("--reason", help="Why; needed with --all.")] = "",
) -> None:
    """Stop all healing, everywhere, or lift that; watching goes on."""
    if everything + lift + show != 1:
        raise ConfigError("stop: give exactly one of --all, --lift and --show")
    if (lift or show) and (reason or for_ is not None):
        raise ConfigError("stop: --reason and --for belong to --all")
    if show:
        _show_stop(api, output)
    elif lift:
        answer = api.delete("stop")
        count = answer.get("lifted")
        output.say(answer, "the stop is lifted" if count else "there was no stop")
    else:
        _stop(api, output, reason, for_)


def _stop(api: Api, output: Output, reason: str, for_s: float | None) -> None:
    if not reason.strip():
        raise ConfigError("stop --all: give --reason, for whoever finds this at night")
    body: dict[str, object] = {"reason": reason}
    if for_s is not None:
        body["for_s"] = for_s
    answer = api.post("stop", body=body)
    until = f"for {durations.shown(for_s)}" if for_s is not None else "until it is lifted"
    output.say(answer, f"all healing is stopped {until}; lift it: yaffle stop --lift")


def _show_stop(api: Api, output: Output) -> None:
    answer = api.get("stop")
    if output.as_json or not answer.get("stopped"):
        output.say(answer, "nothing is stopped")
        return
    print("all healing is stopped")
    output.table(
        answer,
        [row for row in items(answer, "stops") if row.get("in_force")],
        _COLUMNS,
        empty="",
    )

"""`yaffle host …` and `yaffle alert …`: hosts, their failures, and who has been told of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from yaffle.cli.client.native import Api, Row, inner, rows
from yaffle.cli.command import client, group
from yaffle.cli.commands.operators import For, Reason, begin
from yaffle.cli.output import Column, Output, clock_time
from yaffle.model.counts import count

alerts = group("Alerts: failed hosts, told to recovery controllers until they accept.")
hosts = group("Hosts: how their monitors see them; say that one has failed and is off.")

Alert = Annotated[int, typer.Argument(metavar="ALERT", min=1, help="As `list` shows it.")]


def _at(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time; write 2026-11-29T03:15:00Z") from None
    if moment.tzinfo is None:
        raise typer.BadParameter(f"{text!r} names no time zone; write {text}Z for UTC")
    return moment


def _state(row: Row) -> str:
    return "refused" if row.get("refused") else str(row.get("state"))


_COLUMNS: list[Column] = [
    ("ALERT", "seq"),
    ("HOST", "host"),
    ("FAILED", lambda row: clock_time(inner(row, "failure").get("failed_us"))),
    ("ENDPOINT", "endpoint"),
    ("STATE", _state),
    ("ATTEMPTS", "attempts"),
    ("LAST ANSWER", lambda row: row.get("last_answer") or None),
]


@client(alerts, "list")
def list_(
    api: Api,
    output: Output,
    state: Annotated[
        str | None, typer.Option("--state", help="Only pending, accepted or discarded ones.")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Only this host's.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 100,
) -> None:
    """List alerts: those that wait first, then the newest; `refused` ones are offered again too."""
    answer = api.get("alerts", state=state, host=host, limit=limit)
    output.table(answer, rows(answer, "alerts"), _COLUMNS, empty="no alerts")


@client(alerts, "show")
def show(api: Api, output: Output, alert: Alert) -> None:
    """Show one alert: the failure, the proof that the host is off, and what its endpoint says."""
    answer = api.get("alerts", str(alert))
    found = inner(answer, "alert")
    failure = inner(found, "failure")
    output.facts(
        answer,
        [
            ("alert", found.get("seq")),
            ("failure", failure.get("id")),
            ("host", found.get("host")),
            ("failed", clock_time(failure.get("failed_us"))),
            ("proved off", failure.get("proof")),
            ("on shared storage", failure.get("on_shared_storage")),
            ("endpoint", found.get("endpoint")),
            ("responsible", found.get("responsible")),
            ("state", _state(found)),
            ("attempts", found.get("attempts")),
            ("last answer", found.get("last_answer")),
            ("next attempt", clock_time(found.get("next_us"))),
            ("discarded by", found.get("done_by")),
            ("because", found.get("done_why")),
            ("settled by", failure.get("cleared_by")),
        ],
    )


@client(alerts, "retry")
def retry(
    api: Api,
    output: Output,
    alert: Annotated[list[int] | None, typer.Argument(help="Default: all that wait.")] = None,
) -> None:
    """Offer waiting alerts now; each is offered again by itself too, at least every five minutes."""
    answer = api.post("alerts", "retry", body={"seqs": alert} if alert else {})
    output.say(answer, f"{count(int(str(answer.get('retried'))), 'alert')} offered now")


@client(alerts, "discard")
def discard(
    api: Api,
    output: Output,
    alert: Alert,
    reason: Annotated[str, typer.Option("--reason", help="Why nobody has to take it over.")],
) -> None:
    """Give an alert up: nobody is told any more, and you answer for it."""
    answer = api.post("alerts", str(alert), "discard", body={"reason": reason})
    output.say(answer, f"alert {alert} discarded")


_HOSTS: list[Column] = [
    ("HOST", "host"),
    ("STATE", "state"),
    ("SINCE", lambda row: clock_time(row.get("since_us"))),
    ("MONITOR", "monitor"),
    ("WHAT IT SAYS", "said"),
]

HostName = Annotated[str, typer.Argument(metavar="HOST", help="As `list` shows it.")]


@client(hosts, "list")
def list_hosts(
    api: Api,
    output: Output,
    state: Annotated[
        str | None, typer.Option("--state", help="Only those that are e.g. unfenced or unknown.")
    ] = None,
) -> None:
    """List the hosts that monitors know of: how each is, and since when."""
    answer = api.get("hosts", state=state)
    empty = "no hosts; [host_monitors.NAME] in the configuration says who sees them"
    output.table(answer, rows(answer, "hosts"), _HOSTS, empty=empty)


@client(hosts, "show")
def show_host(api: Api, output: Output, host: HostName) -> None:
    """Show one host: its state, its monitor, when it was proved off last, and its alerts."""
    answer = api.get("hosts", host)
    found = inner(answer, "host")
    told = found.get("alerts")
    output.facts(
        answer,
        [
            ("host", found.get("host")),
            ("told as", found.get("hostname")),
            ("state", found.get("state")),
            ("since", clock_time(found.get("since_us"))),
            ("failure domain", found.get("domain")),
            ("monitor", found.get("monitor")),
            ("it says", found.get("said")),
            ("it saw anything", clock_time(found.get("seen_us"))),
            ("proved off last", clock_time(found.get("fenced_us"))),
            ("alerts", ", ".join(map(str, told)) if isinstance(told, list) and told else None),
        ],
    )


@client(hosts, "why")
def why_host(api: Api, output: Output, host: HostName) -> None:
    """Say how a host is, what that means, and what to do."""
    answer = api.get("hosts", host)
    output.say(answer, str(inner(answer, "host").get("why")))


_TOLD: list[Column] = [
    ("TOLD", lambda row: clock_time(row.get("created_us"))),
    ("HOST", "host"),
    ("WHAT", lambda row: f"{row.get('type')} {row.get('event')}"),
    ("BY", "sender"),
    ("STATUS", "status"),
    ("HOW IT STANDS", "message"),
]


@client(hosts, "notifications")
def host_notifications(
    api: Api,
    output: Output,
    host: Annotated[str | None, typer.Option("--host", help="Only of this host.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 100,
) -> None:
    """List what other monitors have told of hosts, the newest first, and how far that is."""
    answer = api.get("host-notifications", host=host, limit=limit)
    output.table(answer, rows(answer, "notifications"), _TOLD, empty="nothing was told")


@client(hosts, "fence")
def fence_host(
    api: Api,
    output: Output,
    host: HostName,
    reason: Annotated[str, typer.Option("--reason", help="Why it has to be switched off.")],
) -> None:
    """Have a lost host switched off by a device of `drivers.HOST`, until that is proved."""
    answer = api.post("hosts", host, "fence", body={"reason": reason})
    output.say(
        answer, f"host {host} is to be switched off; how far that is: yaffle host why {host}"
    )


@client(hosts, "unfence")
def unfence_host(api: Api, output: Output, host: HostName) -> None:
    """Take back what was asked for with `fence`; a switch that is asked right now is asked on."""
    answer = api.post("hosts", host, "unfence")
    output.say(answer, f"host {host} is not to be switched off any more")


@client(hosts, "maintenance")
def maintain_host(
    api: Api, output: Output, host: HostName, reason: Reason, for_: For = None
) -> None:
    """Begin planned work on a host: whatever it does is no failure, and what is on it is not healed."""
    begin(api, output, "host", host, reason, for_)


@client(hosts, "mark")
def mark(
    api: Api,
    output: Output,
    host: Annotated[str, typer.Argument(help="The host that has failed.")],
    proof: Annotated[
        str,
        typer.Option(
            "--proof",
            help="Why it is known to be off, e.g. who cut its power: its instances are started"
            " elsewhere.",
        ),
    ],
    at: Annotated[
        datetime | None,
        typer.Option(
            "--at", parser=_at, metavar="TIME", help="When it failed (ISO 8601). Default: now."
        ),
    ] = None,
) -> None:
    """Say that a host has failed and is off: every endpoint is told until it accepts."""
    body: dict[str, object] = {"proof": proof}
    if at is not None:
        body["failure_time"] = at.timestamp()
    answer = api.post("hosts", host, "failures", body=body)
    told = count(len(rows(answer, "alerts")), "endpoint")
    output.say(answer, f"host {host} is marked; {told} will be told; see: yaffle alert list")

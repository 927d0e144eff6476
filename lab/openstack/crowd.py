"""Servers by the thousand, where booting them would take hours: the rows of a real one, copied.

Each copy is the real server's row in every table of Nova's and Placement's in which that is named,
under an id of its own, and a guest on the same hypervisor. So Nova lists and shows it ACTIVE, watches
its power, and starts, rebuilds, evacuates and deletes it through all of its parts, as any other. What
is not real: nobody ever asked for it and no scheduler placed it. Hence Nova's record of its acts is
empty at first, and whatever is found in it was asked for since (`acts`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from lab.openstack.database import connected
from lab.openstack.errors import LabError
from lab.openstack.plan import Plan
from lab.openstack.waiting import until

RUNNING: Final = 1
"""Nova's power state."""
TAKEN_S: Final = 60.0
AGE: Final = "crowd.place * interval '7 seconds'"
"""Servers of one second would all be news to whoever asks Nova for changes since a minute before it."""
MADE_UP: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "nova": {
        "instance_id_mappings": {"uuid": "crowd.id"},
        "instances": {
            "uuid": "crowd.id",
            "hostname": "crowd.name",
            "display_name": "crowd.name",
            "created_at": f"source.created_at - {AGE}",
            "updated_at": f"source.updated_at - {AGE}",
            "launched_at": f"source.launched_at - {AGE}",
        },
        "instance_info_caches": {"instance_uuid": "crowd.id"},
        "instance_extra": {"instance_uuid": "crowd.id"},
        "instance_system_metadata": {"instance_uuid": "crowd.id"},
        "instance_metadata": {"instance_uuid": "crowd.id"},
        "block_device_mapping": {
            "instance_uuid": "crowd.id",
            "uuid": "CAST(gen_random_uuid() AS text)",
        },
    },
    "nova_api": {
        "instance_mappings": {"instance_uuid": "crowd.id"},
        "request_specs": {
            "instance_uuid": "crowd.id",
            "spec": "replace(source.spec, {model}, crowd.id)",
        },
    },
    "placement": {
        "consumers": {"uuid": "crowd.id"},
        "allocations": {"consumer_id": "crowd.id"},
    },
}
"""The tables that name a server, by database, with the columns that are another copy's own.

The first of them is the one that names the server.
"""
GATHERED: Final = ("instance_actions", "instance_faults", "migrations")
"""What Nova writes down of a server later; rows of `instance_actions_events` belong to an act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One more server like another."""

    id: str
    name: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Instead of that of its model."""


def add(plan: Plan, host: str, model: str, copies: Sequence[Copy]) -> None:
    """Make copies of the server `model`, which runs on `host`, and wait until that has their guests.

    They are as if they had been made one after another, the last one just now.
    """
    # First: of a server without a guest Nova would write down, once and for all, that it has no power.
    _change_guests(plan, host, {"here": {copy.id: (copy.name, RUNNING) for copy in copies}})
    for database, tables in MADE_UP.items():
        with _crowd(plan, database, copies) as cursor:
            for table, own in tables.items():
                if table != "instance_metadata":
                    _copy(cursor, table, own, model)
            if database == "nova":
                _describe(cursor, copies)


def move(plan: Plan, idents: Sequence[str], host: str, model: str) -> None:
    """Have servers be where the server `model` is, on `host`: as if each had been migrated live."""
    # Where Nova believes them to be they are at all times.
    _change_guests(plan, host, {"here": dict.fromkeys(idents, ("moved", RUNNING))})
    seat = "SELECT host, node, compute_id, launched_on FROM instances WHERE uuid = %s"
    provider = "SELECT resource_provider_id FROM allocations WHERE consumer_id = %s LIMIT 1"
    with connected(plan, "nova") as connection:
        connection.execute(
            "UPDATE instances SET (host, node, compute_id, launched_on, updated_at) ="
            f" (SELECT source.*, now() AT TIME ZONE 'UTC' FROM ({seat}) AS source)"
            " WHERE uuid = ANY(%s)",
            (model, list(idents)),
        )
    with connected(plan, "placement") as connection:
        connection.execute(
            f"UPDATE allocations SET resource_provider_id = ({provider})"
            " WHERE consumer_id = ANY(%s)",
            (model, list(idents)),
        )
    for other in set(plan.hosts) - {host}:
        _change_guests(plan, other, {"gone": list(idents)})


def remove(plan: Plan, idents: Sequence[str]) -> None:
    """Forget servers as if they had never been, also what was done to them; no guest is left.

    The hosts that have them must run.
    """
    for host in plan.hosts:
        _change_guests(plan, host, {"gone": list(idents)})
    for database, tables in MADE_UP.items():
        with _crowd(plan, database, [Copy(id=i, name="") for i in idents]) as cursor:
            if database == "nova":
                _forget_acts(cursor)
            for table, own in reversed(list(tables.items())):
                _forget(cursor, table, next(iter(own)))


def put(plan: Plan, idents: Sequence[str], *, state: str, power: int) -> None:
    """Have Nova believe servers to be in a `vm_state` and a power state, all in one statement."""
    statement = (
        "UPDATE instances SET vm_state = %s, power_state = %s, updated_at = now() AT TIME ZONE 'UTC'"
        " WHERE uuid = ANY(%s)"
    )
    with connected(plan, "nova") as connection:
        connection.execute(statement, (state, power, list(idents)))


def acts(plan: Plan, idents: Sequence[str]) -> Counter[str]:
    """Return how often Nova was asked for each act on any of these servers, deleted ones included."""
    statement = "SELECT action FROM instance_actions WHERE instance_uuid = ANY(%s)"
    with connected(plan, "nova") as connection:
        return Counter(row[0] for row in connection.execute(statement, (list(idents),)))


# --- rows --------------------------------------------------------------------------------------------


@contextmanager
def _crowd(plan: Plan, database: str, copies: Sequence[Copy]) -> Iterator[psycopg.Cursor[Any]]:
    """Give a transaction in which the table `crowd` holds ids and names."""
    with connected(plan, database) as connection, connection.transaction():
        cursor = connection.cursor()
        cursor.execute(
            "CREATE TEMPORARY TABLE crowd (id text, name text, place integer) ON COMMIT DROP"
        )
        with cursor.copy("COPY crowd FROM STDIN") as stream:
            for place, one in enumerate(copies):
                stream.write_row((one.id, one.name, place))
        cursor.execute("ANALYZE crowd")
        yield cursor


def _copy(cursor: psycopg.Cursor[Any], table: str, own: Mapping[str, str], model: str) -> None:
    """Copy the model's rows of a table for each of the crowd; ids of rows are the database's to give."""
    columns = [name for name in _columns(cursor, table) if name != "id"]
    values = [
        sql.SQL(own[name]).format(model=sql.Literal(model))
        if name in own
        else sql.SQL("source.{}").format(sql.Identifier(name))
        for name in columns
    ]
    cursor.execute(
        sql.SQL("INSERT INTO {table} ({columns}) SELECT {values} FROM {table} AS source, crowd"
                " WHERE source.{key} = {model}").format(
            table=sql.Identifier(table),
            columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
            values=sql.SQL(", ").join(values),
            key=sql.Identifier(next(iter(own))),
            model=sql.Literal(model),
        )
    )  # fmt: skip


def _describe(cursor: psycopg.Cursor[Any], copies: Sequence[Copy]) -> None:
    cursor.executemany(
        "INSERT INTO instance_metadata (created_at, key, value, instance_uuid, deleted)"
        " VALUES (now() AT TIME ZONE 'UTC', %s, %s, %s, 0)",
        [(key, value, one.id) for one in copies for key, value in one.metadata.items()],
    )


def _forget(cursor: psycopg.Cursor[Any], table: str, key: str) -> None:
    cursor.execute(
        sql.SQL("DELETE FROM {} USING crowd WHERE {} = crowd.id").format(
            sql.Identifier(table), sql.Identifier(table, key)
        )
    )


def _forget_acts(cursor: psycopg.Cursor[Any]) -> None:
    cursor.execute(
        "DELETE FROM instance_actions_events USING instance_actions, crowd"
        " WHERE action_id = instance_actions.id AND instance_uuid = crowd.id"
    )
    for table in GATHERED:
        _forget(cursor, table, "instance_uuid")


def _columns(cursor: psycopg.Cursor[Any], table: str) -> list[str]:
    cursor.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND table_name = %s ORDER BY ordinal_position",
        (table,),
    )
    found = [str(row[0]) for row in cursor.fetchall()]
    if not found:
        raise LabError(f"this Nova has no table {table}: what a server is made of has changed")
    return found


# --- guests ------------------------------------------------------------------------------------------


def _change_guests(plan: Plan, host: str, change: Mapping[str, object]) -> None:
    """Have a hypervisor take or lose many guests at once, without a word to Nova."""
    lever = plan.host_data(host) / "crowd.json"
    draft = Path(f"{lever}.new")
    draft.write_text(json.dumps(change))
    draft.replace(lever)
    until(f"{host} has changed its guests", lambda: not lever.exists(), TAKEN_S, poll_s=0.05)

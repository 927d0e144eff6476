"""Which incidents are listed, and in which order."""

import asyncio

import pytest
from sqlalchemy import insert
from tests.contract.store.support import HandClock, place

from yaffle.store import incidents, tables
from yaffle.store.database import open_store


@pytest.fixture(params=["memory", "file", "postgresql", "mariadb"])
def unit(request, tmp_path):
    """Run a unit of work on each kind of database."""
    store = open_store(place(request, tmp_path), clock=HandClock(), runner="inline")
    yield lambda work: asyncio.run(store.write(work))
    asyncio.run(store.close())


def fill(conn, ident, opened_us, *, parent=None, open_=True, project="p"):
    values = {
        "id": ident, "node_id": ident, "state": "open", "cause": "dead", "opened_us": opened_us,
        "parent_id": parent, "open_key": ident if open_ else None, "project": project,
    }  # fmt: skip
    conn.execute(insert(tables.incidents).values(**values))


def crowd(conn):
    """A host whose incident was opened amid those of its many nodes, and two of nobody's."""
    fill(conn, "host", 500)
    for number in range(100):
        fill(conn, f"part{number:03}", 450 + number, parent="host")
    fill(conn, "old", 100)
    fill(conn, "new", 900)


def names(conn, limit, *, open_only=False, node_id=None, project=None):
    found = incidents.listed(
        conn, open_only=open_only, node_id=node_id, limit=limit, project=project
    )
    return [row.id for row in found]


def test_a_whole_incident_comes_before_its_parts_and_is_never_hidden_by_them(unit):
    unit(crowd)
    assert unit(lambda c: names(c, 5)) == ["new", "host", "part099", "part098", "part097"]
    every = unit(lambda c: names(c, 1000))
    assert every[:2] == ["new", "host"]
    assert every[-1] == "old"
    assert len(every) == 103


def test_a_failure_of_now_is_first_however_old_its_whole_is(unit):
    def days_later(conn):
        crowd(conn)
        fill(conn, "newest", 9000, parent="host")

    unit(days_later)
    assert unit(lambda c: names(c, 3)) == ["host", "newest", "part099"]


def test_what_was_not_asked_for_is_not_shown_with_its_parts(unit):
    def ended(conn):
        fill(conn, "over", 1000, open_=False)
        fill(conn, "theirs", 1001, project="q")
        fill(conn, "a", 2000, parent="over")
        fill(conn, "b", 2001, parent="theirs")

    unit(ended)
    assert unit(lambda c: names(c, 9, open_only=True, project="p")) == ["b", "a"]
    assert unit(lambda c: names(c, 9, node_id="a")) == ["a"]
    assert unit(lambda c: names(c, 9)) == ["theirs", "b", "over", "a"]

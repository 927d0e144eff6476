"""What is said to each database, and what its errors mean."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import MappingProxyType

import pytest
from sqlalchemy import select
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from yaffle.errors import ConfigError
from yaffle.model.health import Health
from yaffle.store import dialects, tables
from yaffle.store.outbox import backoff_s

DIALECTS = [
    pytest.param(sqlite.dialect(), id="sqlite"),
    pytest.param(postgresql.dialect(), id="postgresql"),
    pytest.param(mysql.dialect(), id="mysql"),
]


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        pytest.param(sqlite.dialect(), "yaffle_now_us()", id="sqlite"),
        pytest.param(postgresql.dialect(), "clock_timestamp()", id="postgresql"),
        pytest.param(mysql.dialect(), "SYSDATE(6)", id="mysql"),
    ],
)
def test_each_database_is_asked_for_its_own_clock(dialect, words):
    assert words in str(select(dialects.now_us()).compile(dialect=dialect))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_table_can_be_spelt_for_every_database(dialect):
    for table in tables.metadata.sorted_tables:
        assert "CREATE TABLE" in str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            statement = str(CreateIndex(index).compile(dialect=dialect))
            assert index.name is not None
            assert len(index.name) <= 63, "PostgreSQL would cut the name"
            assert "CREATE" in statement


def test_every_object_row_says_whose_it_is():
    owned = {"profiles", "policies", "clusters", "nodes", "actions", "incidents", "events"}
    for name in owned:
        assert {"project", "user", "domain"} <= set(tables.metadata.tables[name].c.keys())


@pytest.mark.parametrize(
    ("url", "path"),
    [
        pytest.param("sqlite://", None, id="memory"),
        pytest.param("sqlite:///:memory:", None, id="memory-by-name"),
        pytest.param("sqlite:////var/lib/y.db", Path("/var/lib/y.db"), id="absolute"),
        pytest.param("sqlite:///y.db", Path.cwd() / "y.db", id="relative"),
    ],
)
def test_sqlite_urls_name_a_file(url, path):
    assert dialects.place_of(url).path == path


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+asyncpg://yaffle:secret@db/yaffle",
        "mysql+asyncmy://yaffle:secret@db/yaffle",
        "sqlite+aiosqlite:///y.db",
        "sqlite:///y.db?mode=memory",
        "/var/lib/yaffle:secret.db",
    ],
)
def test_other_urls_are_refused_with_what_would_work_and_no_password(url):
    with pytest.raises(ConfigError, match="sqlite:///PATH") as caught:
        dialects.place_of(url)
    assert "secret" not in str(caught.value)


def test_json_columns_take_the_values_of_the_model():
    value = MappingProxyType({"a": (1, 2), "b": Health.SUSPECT, "c": {"z", "x"}})
    assert json.loads(dialects.dump_json(value)) == {"a": [1, 2], "b": "suspect", "c": ["x", "z"]}


@pytest.mark.parametrize("value", [math.nan, object()])
def test_json_columns_refuse_what_could_not_be_read_back(value):
    with pytest.raises((ValueError, TypeError)):
        dialects.dump_json({"a": value})


@pytest.mark.parametrize(
    ("attempts", "chance", "wait_s"),
    [
        pytest.param(1, 0.5, 0.5, id="first"),
        pytest.param(4, 0.5, 4.0, id="doubles"),
        pytest.param(4, 0.0, 0.0, id="full-jitter"),
        pytest.param(20, 1.0, 300.0, id="capped"),
        pytest.param(100_000, 1.0, 300.0, id="no-overflow"),
        pytest.param(0, 1.0, 1.0, id="none-yet"),
    ],
)
def test_waiting_doubles_up_to_a_cap_and_is_jittered(attempts, chance, wait_s):
    assert backoff_s(attempts, chance) == wait_s

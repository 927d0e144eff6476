"""`yaffle db …`: the database itself, without a server of ours: look, upgrade, forget what is old."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from yaffle.cli import settings
from yaffle.cli.command import Json, group
from yaffle.cli.output import Output, note
from yaffle.cli.settings import Config, Database, StateDir

if TYPE_CHECKING:
    from yaffle.config import Settings

app = group("The database: look, upgrade, forget what is old.")


@app.command("check")
def check(
    config: Config = None,
    database: Database = None,
    state_dir: StateDir = None,
    *,
    as_json: Json = False,
) -> None:
    """Look at the database without changing it; exit 1 if anything is wrong."""
    from yaffle.engine.runtime.clock import SystemClock
    from yaffle.store import doctor

    found = settings.of_installation(config, database=database, state_dir=state_dir)
    facts = asdict(doctor.check(found.database_url, clock=SystemClock()))
    problems = facts.pop("problems")
    Output(as_json=as_json).facts(
        {**facts, "problems": problems},
        [*facts.items(), ("problems", None if problems else "none")],
    )
    for problem in problems:
        note(f"problem: {problem}")
    if problems:
        raise typer.Exit(1)


@app.command("migrate")
def migrate(
    config: Config = None,
    database: Database = None,
    state_dir: StateDir = None,
    *,
    as_json: Json = False,
) -> None:
    """Bring the database to this version's schema.

    A file is copied first, and no engine may run meanwhile; on a server's database the engines of
    the version before go on.
    """
    import asyncio

    from yaffle.engine.runtime.clock import SystemClock
    from yaffle.store.database import open_store, prepare_server
    from yaffle.store.dialects import place_of
    from yaffle.store.migrate import HEAD
    from yaffle.wiring import made_dir

    found = settings.of_installation(config, database=database, state_dir=state_dir)
    place = place_of(found.database_url)
    if place.shared:
        prepare_server(found.database_url, clock=SystemClock())
        asyncio.run(_hide_ids(found))
    else:
        made_dir(found.state_dir)
        store = open_store(
            found.database_url, clock=SystemClock(), backup_dir=found.state_dir / "backups"
        )
        asyncio.run(store.close())
    Output(as_json=as_json).say({"database": str(place), "schema": HEAD}, f"{place}: schema {HEAD}")


async def _hide_ids(found: Settings) -> None:
    """Hide the ids of webhooks that older programs have stored, or say why that has to wait."""
    from yaffle.engine.runtime.clock import SystemClock
    from yaffle.store import migrate, receivers
    from yaffle.store.database import open_store
    from yaffle.wiring import receiver_terms

    keys = receiver_terms(found).keys
    async with open_store(found.database_url, clock=SystemClock()) as store:
        old = await store.read(migrate.old_engines)
        if not old and found.receivers.keys_file is not None:
            await store.write(lambda conn: receivers.hide_old(conn, keys))
        elif plain := await store.read(receivers.plain):
            why = "older engines are at work" if old else "receivers.keys_file is not set"
            note(
                f"{plain} webhooks' ids stay in the database as they are: {why}; then run this again"
            )


@app.command("restored")
def restored(
    config: Config = None,
    database: Database = None,
    state_dir: StateDir = None,
    *,
    as_json: Json = False,
) -> None:
    """Say that the database is a restored copy: nothing is healed until `yaffle stop --lift`.

    Before the first engine starts on it: the copy does not know what was done after it was made.
    """
    import asyncio

    found = settings.of_installation(config, database=database, state_dir=state_dir)
    place = asyncio.run(_restored(found))
    Output(as_json=as_json).say(
        {"database": place, "stopped": True},
        f"{place}: all healing is stopped; compare nodes and backend, then `yaffle stop --lift`",
    )


async def _restored(found: Settings) -> str:
    from yaffle.engine.runtime.clock import SystemClock
    from yaffle.errors import ConfigError
    from yaffle.store import rollback_detection
    from yaffle.store.database import open_store
    from yaffle.store.dialects import place_of

    path = place_of(found.database_url).path
    if path is not None and not path.exists():
        raise ConfigError(f"database.url: there is no copy at {path}; put it there first")
    # As it is: who goes back to the version before needs the schema before.
    async with open_store(found.database_url, clock=SystemClock(), upgrade=False) as store:
        await store.write(rollback_detection.restored)
        return str(store.place)


@app.command("prune")
def prune(
    config: Config = None,
    database: Database = None,
    state_dir: StateDir = None,
    *,
    as_json: Json = False,
) -> None:
    """Forget what is over and older than the retention settings; an engine may run meanwhile."""
    import asyncio

    found = settings.of_installation(config, database=database, state_dir=state_dir)
    removed = asyncio.run(_prune(found))
    text = ", ".join(f"{count} {name}" for name, count in removed.items() if count)
    Output(as_json=as_json).say({"removed": removed}, f"removed: {text or 'nothing is old enough'}")


async def _prune(found: Settings) -> dict[str, int]:
    from yaffle.engine.runtime.clock import SystemClock
    from yaffle.store import prune as store_prune
    from yaffle.store.database import open_store
    from yaffle.wiring import retention

    clock, kept = SystemClock(), retention(found.retention)
    removed: Counter[str] = Counter()
    async with open_store(found.database_url, clock=clock, with_engine_lock=False) as store:
        while True:
            gone = await store.write(
                lambda conn: store_prune.prune(conn, now_us=clock.now_us(), retention=kept)
            )
            removed.update(gone)
            if all(count < store_prune.BATCH for count in gone.values()):
                return dict(removed)

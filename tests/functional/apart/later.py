"""Programs of later versions, made from this one: the source with one more migration and column."""

from __future__ import annotations

import shutil
from pathlib import Path

from yaffle.store import migrate

SOURCE = Path(__file__).parents[3] / "src"
MIGRATION = '''"""Add one column, as a later version might."""
from alembic import op
import sqlalchemy as sa
revision, down_revision = "{new}", "{old}"
branch_labels = depends_on = None
OLDEST_PROGRAM = {oldest}
def upgrade():
    op.add_column("nodes", sa.Column("{column}", sa.String(255), nullable=False, server_default=""))
'''


def program(place: Path, base: Path, *, head: int, oldest: int) -> Path:
    """Write the program of schema `head`, made from the one below `base`; return its import path.

    `oldest`: the lowest schema a program must know to work beside it.
    """
    shutil.copytree(base, place, ignore=shutil.ignore_patterns("__pycache__"))
    store = place / "yaffle" / "store"
    old, new, column = f"{head - 1:04}", f"{head:04}", f"later_{head}"
    text = MIGRATION.format(new=new, old=old, column=column, oldest=oldest)
    (store / "migrations" / "versions" / f"v{new}_later.py").write_text(text)
    _replace(store / "migrate.py", f'HEAD: Final = "{old}"', f'HEAD: Final = "{new}"')
    _replace(
        store / "tables" / "catalogue.py",
        '    columns.flag("tainted", default=False),\n',
        f'    columns.flag("tainted", default=False),\n    columns.word("{column}"),\n',
    )
    return place


def here() -> int:
    """Return this program's schema."""
    return int(migrate.HEAD)


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, f"{file.name}: {old!r}"
    file.write_text(text.replace(old, new))

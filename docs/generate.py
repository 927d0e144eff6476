"""Writes the reference pages from the program itself, so that they cannot say anything else.

python docs/generate.py             write the pages again
python docs/generate.py --check     exit 1 and name the pages that are not as they should be
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
REFERENCE: Final = ROOT / "docs" / "reference"
NOTICE: Final = "<!-- Written by docs/generate.py (`make docs`) from the program. Do not edit. -->"

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


def pages() -> dict[str, str]:
    """Return every reference page: file name to content."""
    # Only now: the root of the checkout has to be on the path.
    from docs.pages import commands, decisions, documents, http, settings, telling  # noqa: PLC0415

    found = {
        "settings.md": settings.settings(),
        "drivers.md": settings.drivers(),
        "policy-document.md": documents.policy_document(),
        "cluster-policies.md": documents.cluster_policies(),
        "hazards.md": documents.hazards(),
        "outcomes.md": decisions.outcomes(),
        "health.md": decisions.health(),
        "guards.md": decisions.guards(),
        "ladder.md": decisions.ladder(),
        "incidents.md": telling.incidents(),
        "metrics.md": telling.metrics(),
        "events.md": telling.events(),
        "exit-codes.md": telling.exit_codes(),
        "commands.md": commands.commands(),
        "http.md": http.routes(),
    }
    return {name: f"{NOTICE}\n\n{text.strip()}\n" for name, text in found.items()}


def stale() -> list[str]:
    """Return the names of pages that differ from what the program says now, or should not exist."""
    wanted = pages()
    found = {p.name: p.read_text() for p in REFERENCE.glob("*.md")}
    return sorted(n for n in wanted.keys() | found.keys() if wanted.get(n) != found.get(n))


def write() -> None:
    """Write every page; remove what is no page any more."""
    REFERENCE.mkdir(exist_ok=True)
    wanted = pages()
    for path in REFERENCE.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (REFERENCE / name).write_text(text)


if __name__ == "__main__":
    # The pages must not depend on who writes them.
    for variable in [v for v in os.environ if v.startswith("YAFFLE_")]:
        del os.environ[variable]
    if "--check" in sys.argv[1:]:
        old = stale()
        print("\n".join(f"docs/reference/{name}: run `make docs`" for name in old))
        sys.exit(1 if old else 0)
    write()

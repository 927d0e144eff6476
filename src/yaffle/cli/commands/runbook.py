"""`yaffle explain`: the runbook in the terminal, with no network and no server."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yaffle.cli.command import Json
from yaffle.cli.output import Output, clean
from yaffle.errors import NotFound

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

CHECKOUT = Path(__file__).resolve().parents[4] / "docs" / "runbook"
"""Where the pages lie while Yaffle runs from its sources; a wheel brings them along."""


def pages() -> dict[str, Traversable]:
    """Return the pages by name; empty where they were not installed."""
    found: dict[str, Traversable] = {}
    for folder in (files("yaffle") / "runbook", CHECKOUT):
        if folder.is_dir():
            found |= {
                page.name.removesuffix(".md"): page
                for page in folder.iterdir()
                if page.name.endswith(".md")
            }
            break
    return found


def explain(
    reason: Annotated[
        str | None,
        typer.Argument(
            metavar="[REASON]", help="As `yaffle why` names it, or the page of an alert."
        ),
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """Print what a reason or an alert means, what to check, and what you can do."""
    found = pages()
    name = "README" if reason is None else Path(reason).name.removesuffix(".md").lower()
    page = found.get(name)
    if page is None:
        known = ", ".join(sorted(found.keys() - {"README"})) or "none is installed"
        raise NotFound(f"page {reason!r}: there is none; there are: {known}")
    text = clean(page.read_text(encoding="utf-8")).rstrip()
    Output(as_json=as_json).say({"page": name, "text": text}, text)

"""Every `yaffle …` that a page speaks of is a command, with options that it has."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from docs.pages.commands import root
from tests.docs.pages import ROOT, blocks, name_of, pages, prose

INLINE = re.compile(r"`(yaffle [^`]+)`")
SOURCES = sorted((ROOT / "src" / "yaffle").rglob("*.py"))


def fault(line: str) -> str | None:
    """Return why `line` cannot be typed, or None."""
    try:
        words = shlex.split(line, comments=True)[1:]
    except ValueError as error:
        return str(error)
    command = root()
    while words and hasattr(command, "commands"):
        if words[0].startswith("-"):
            break
        if words[0] not in command.commands:
            return f"no command {words[0]!r}" if words[0] not in {"…", "WORD"} else None
        command = command.commands[words.pop(0)]
    known = {option for p in command.params for option in p.opts} | {"--help", "-h"}
    for word in words:
        if word in {"|", "&&", ">", "&", ";", "||"}:
            break
        option = word.partition("=")[0].rstrip(",;")
        if option.startswith("-") and len(option) > 1 and option not in known:
            return f"no option {option!r}"
    return None


def lacking(line: str) -> str | None:
    """Return what has to be added before `line` does anything, or None.

    One that stands without any word of its own is only spoken of.
    """
    words, command = shlex.split(line, comments=True)[1:], root()
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    if not words or {"-h", "--help", "…"} & set(words):
        return None
    given = {word.partition("=")[0] for word in words}
    for p in command.params:
        if p.required and p.param_type_name == "option" and not given & set(p.opts):
            return f"lacks {p.opts[-1]}"
    flags = {option for p in command.params if getattr(p, "is_flag", False) for option in p.opts}
    values = iter(words)
    arguments = 0
    for word in values:
        if not word.startswith("-"):
            arguments += 1
        elif word not in flags and "=" not in word:
            next(values, None)
    wanted = sum(p.required for p in command.params if p.param_type_name == "argument")
    return f"lacks {wanted - arguments} arguments" if arguments < wanted else None


def spoken(page: Path) -> list[str]:
    found = INLINE.findall(prose(page))
    for block in blocks(page):
        if block.language in {"sh", "console"}:
            for line in block.text.splitlines():
                plain = line.removeprefix("$ ").strip()
                if plain.startswith("yaffle "):
                    found.append(plain.partition("$(")[0] if "$(" in plain else plain)
    return found


@pytest.mark.parametrize("page", [pytest.param(p, id=name_of(p)) for p in pages()])
def test_a_page_names_real_commands(page: Path) -> None:
    faults = {line: why for line in spoken(page) if (why := fault(line))}
    assert faults == {}


def test_the_program_names_real_commands() -> None:
    faults = {}
    for path in SOURCES:
        for line in INLINE.findall(path.read_text()):
            plain = re.sub(r"\{[^}]*\}", "WORD", line)
            if "\n" not in plain and (why := fault(plain) or lacking(plain)):
                faults[f"{path.relative_to(ROOT)}: {line}"] = why
    assert faults == {}


def test_a_wrong_command_is_seen() -> None:
    assert fault("yaffle nodes list")
    assert fault("yaffle node list --colour")
    assert fault("yaffle node list --cluster web") is None
    assert lacking("yaffle cluster release web") == "lacks --reason"
    assert lacking("yaffle node mark unhealthy --reason x") == "lacks 1 arguments"
    for line in ("yaffle cluster release web --reason x", "yaffle stop", "yaffle why web-1"):
        assert lacking(line) is None

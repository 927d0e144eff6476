"""Groups of servers that are judged together: a storm, a share and a report are those of a group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from yaffle.model.operations import Present

NAME_MAX: Final = 200
"""Below what a name may have, so that a project's name fits before it."""
_NUMBERED: Final = re.compile(r"(.+?)[-_. ]?\d+")


class By(StrEnum):
    """The criterion by which servers are grouped."""

    PROJECT = "project"
    SERVER_GROUP = "server-group"
    ZONE = "zone"
    METADATA = "metadata"
    NAME_PREFIX = "name-prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The rule of grouping; `key` is the metadata's, for METADATA."""

    by: By = By.PROJECT
    key: str = ""

    def __str__(self) -> str:
        return f"{self.by}:{self.key}" if self.key else str(self.by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Servers that become one cluster; never of two projects."""

    key: str
    """Unique, and the same in every run."""
    name: str
    project: str


def rule_of(text: str) -> Rule:
    """Return the rule that a person wrote; raise ValueError naming what there is."""
    word, _, key = text.partition(":")
    known = "project, server-group, zone, metadata:KEY or name-prefix"
    try:
        by = By(word)
    except ValueError:
        raise ValueError(f"{text!r}: it must be {known}") from None
    if (by is By.METADATA) != bool(key):
        raise ValueError(f"{text!r}: it must be {known}")
    return Rule(by=by, key=key)


def group_of(rule: Rule, server: Present, projects: Mapping[str, str]) -> Group:
    """Return the group of a server; `projects` are names by id, as far as they are known."""
    project = str(server.facts.get("project_id", ""))
    home = clean(projects.get(project) or project or "project")
    value, called = _value(rule, server)
    if rule.by is By.PROJECT:
        return Group(key=project, name=home, project=project)
    name = called if len(projects) < 2 else f"{home}.{called}"
    return Group(key=f"{project}\0{rule}\0{value}", name=clean(name), project=project)


def _value(rule: Rule, server: Present) -> tuple[str, str]:
    """Return what tells the groups of a project apart, and how that is called."""
    facts = server.facts
    match rule.by:
        case By.PROJECT:
            return "", ""
        case By.SERVER_GROUP:
            found = str(facts.get("group_id", ""))
            return found, str(facts.get("group", "")) or "no-server-group"
        case By.ZONE:
            found = str(facts.get("zone", ""))
            return found, found or "no-zone"
        case By.METADATA:
            metadata = facts.get("metadata")
            found = str(metadata.get(rule.key, "")) if isinstance(metadata, Mapping) else ""
            return found, found or f"no-{rule.key}"
        case By.NAME_PREFIX:
            numbered = _NUMBERED.fullmatch(server.name)
            found = numbered[1] if numbered else server.name
            return found, found or "no-name"


def clean(name: str) -> str:
    """Return a name that paths and terminals can carry."""
    usable = "".join(c if c.isprintable() and c != "/" else "_" for c in name).strip()
    usable = f"_{usable[1:]}" if usable.startswith("-") else usable
    return usable[:NAME_MAX].strip() if usable not in {"", ".", ".."} else "unnamed"

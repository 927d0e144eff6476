"""Lines of a token file: those of before keep what they could do, new ones say project and roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from yaffle.api.auth.tokens import parsed
from yaffle.errors import ConfigError
from yaffle.model.authz import RIGHTS, Right, Role, rights_of

TOKEN = "0123456789abcdef"
PATH = Path("/etc/yaffle/tokens")
EVERY = frozenset(Right)


@pytest.mark.parametrize(
    ("line", "user", "project", "rights"),
    [
        pytest.param(f"mara:{TOKEN}", "mara", "default", EVERY, id="before"),
        pytest.param(TOKEN, "token on line 1", "default", EVERY, id="nameless"),
        pytest.param(f" mara : {TOKEN} ", "mara", "default", EVERY, id="blanks"),
        pytest.param(f"mara of web:{TOKEN}", "mara of web", "default", EVERY, id="long-name"),
        pytest.param(f"m:{TOKEN} project=web", "m", "web", EVERY, id="project"),
        pytest.param(f"m:{TOKEN} roles=reader", "m", "default", RIGHTS[Role.READER], id="roles"),
        pytest.param(
            f"{TOKEN} roles=member,fence project=web",
            "token on line 1",
            "web",
            RIGHTS[Role.MEMBER] | {Right.FENCE},
            id="both",
        ),
    ],
)
def test_whose_a_token_is(line: str, user: str, project: str, rights: frozenset[Right]) -> None:
    who = parsed(PATH, line).who_of(TOKEN.encode())
    assert who is not None
    assert (who.user, who.project, who.rights) == (user, project, rights)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param(f"m:{TOKEN} more", "has more after the token", id="word"),
        pytest.param(f"m:{TOKEN} role=reader", "has more after the token", id="key"),
        pytest.param(f"m:{TOKEN} roles=", "has more after the token", id="empty"),
        pytest.param(f"m:{TOKEN} roles=boss", "role 'boss'", id="role"),
        pytest.param(f"m:{TOKEN} roles=fence", "one of the roles", id="no-role"),
        pytest.param(f"m:{TOKEN} project=a project=b", "has more", id="twice"),
        pytest.param("m:short", "at least 16", id="short"),
        pytest.param("m:", "at least 16", id="none"),
    ],
)
def test_a_wrong_line_is_named_and_its_token_is_not(line: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"line 2 ") as error:
        parsed(PATH, f"# people\n{line}\n")
    assert said in str(error.value)
    assert TOKEN not in str(error.value)


def test_admin_alone_neither_fences_nor_overrides() -> None:
    assert rights_of(["admin"]) == {Right.READ, Right.WRITE, Right.ADMIN}
    assert rights_of(["admin", "fence", "override"]) == EVERY
    assert rights_of(["reader", "member"]) == RIGHTS[Role.MEMBER]

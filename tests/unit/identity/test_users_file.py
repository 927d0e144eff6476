"""Lines of a users file: what is read, what is refused with its line, what a change leaves alone."""

from __future__ import annotations

import math
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from yaffle.api.auth import passwords, users
from yaffle.api.auth.passwords import Cost
from yaffle.api.auth.secure_file import read_private
from yaffle.api.auth.user_file_writer import rewrite
from yaffle.api.auth.users import User, Users
from yaffle.errors import ConfigError
from yaffle.model.authz import Right

CHEAP = Cost(ln=12, r=8, p=1)
HASH = passwords.hashed("correct horse", CHEAP)
LINE = f"mara:{HASH}:web:member,override"
PATH = Path("/etc/yaffle/users")


def test_a_line_says_who_somebody_is() -> None:
    (user,) = users.parsed(PATH, f"# people\n\n{LINE}\n")
    assert str(user) == LINE
    assert (user.who.user, user.who.project) == ("mara", "web")
    assert user.who.rights == {Right.READ, Right.WRITE, Right.OVERRIDE}


def test_nobody_is_an_answer() -> None:
    assert users.parsed(PATH, "# all gone\n") == ()
    assert Users(()).who_of("mara", "correct horse") is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("mara", "is no `name:hash:project:roles`", id="name-only"),
        pytest.param(f"mara:{HASH}:web", "is no `name", id="no-roles"),
        pytest.param(f"mara:{HASH}:web:member:x", "is no `name", id="too-many"),
        pytest.param("mara:correct horse:web:member", "is no hash", id="plain-text"),
        pytest.param(f"mara:{str(HASH)[:-30]}:web:member", "is no hash", id="cut-off"),
        pytest.param(f"mara:{HASH}:web:boss", "role 'boss'", id="role"),
        pytest.param(f"mara:{HASH}:web:", "role ''", id="empty-role"),
        pytest.param(f"mara:{HASH}:web:override", "one of the roles", id="right-without-role"),
        pytest.param(f"mara:{HASH}:web:write", "role 'write'", id="right-as-role"),
        pytest.param(f":{HASH}:web:member", "has a name", id="no-name"),
        pytest.param(f"mara:{HASH}::member", "has a project", id="no-project"),
        pytest.param(f"mara :{HASH}:web:member", "has a name", id="blank-after-name"),
        pytest.param(f"{'x' * 256}:{HASH}:web:member", "has a name", id="long-name"),
        pytest.param(f"ma\x07ra:{HASH}:web:member", "has a name", id="bell"),
        pytest.param(LINE, "a second time", id="twice"),
        pytest.param(
            f"x:{str(HASH).replace('ln=12', 'ln=11')}:web:member", "too cheaply", id="cheap"
        ),
        pytest.param(f"x:{str(HASH).replace('ln=12', 'ln=30')}:web:member", "MiB", id="ruinous"),
        pytest.param(f"x:{str(HASH).replace('p=1', 'p=99')}:web:member", "MiB", id="parallel"),
        pytest.param(f"x:{str(HASH).replace('r=8', 'r=0')}:web:member", "cheaply", id="zero"),
    ],
)
def test_a_wrong_line_is_named_and_its_hash_is_not(line: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"users_file = /etc/yaffle/users: line 3 ") as error:
        users.parsed(PATH, f"{LINE}\n\n{line}\n")
    assert said in str(error.value)
    assert str(HASH)[-20:] not in str(error.value)


def test_only_the_password_fits() -> None:
    people = Users(users.parsed(PATH, LINE))
    found = people.who_of("mara", "correct horse")
    assert found is not None
    assert found.user == "mara"
    for name, word in (
        ("mara", "correct hors"),
        ("mara", ""),
        ("Mara", "correct horse"),
        ("", ""),
        ("nobody", "correct horse"),
    ):
        assert people.who_of(name, word) is None, name


def test_who_is_not_here_costs_what_who_is_here_costs() -> None:
    people = Users(users.parsed(PATH, LINE))

    def cost_s(work: Callable[[], object]) -> float:
        """Return CPU seconds of this thread, which no neighbour can disturb much."""
        began = time.thread_time()
        work()
        return time.thread_time() - began

    for name in ("mara", "nobody", ""):
        one = other = math.inf
        for _ in range(100):
            # In turns, for as long as it takes: a neighbour may have the processor's caches for a while.
            one = min(one, cost_s(lambda: HASH.fits("wrong")))
            other = min(other, cost_s(lambda name=name: people.who_of(name, "wrong")))
            if 0.7 * one < other < 1.4 * one:
                break
        assert 0.7 * one < other < 1.4 * one, name


def test_letters_that_look_the_same_are_the_same() -> None:
    made = passwords.hashed("\u00e4pfelmus", CHEAP)
    assert made.fits("a\u0308pfelmus")


def test_two_hashes_of_one_password_differ() -> None:
    assert str(passwords.hashed("correct horse", CHEAP)) != str(HASH)
    assert passwords.read(str(HASH)) == HASH


def test_the_default_is_not_cheap() -> None:
    cost = passwords.DEFAULT
    assert 128 * (1 << cost.ln) * cost.r >= 16 * 1024 * 1024
    assert passwords.read(str(passwords.decoy(cost))).cost == cost


def test_a_change_leaves_comments_order_and_others_alone() -> None:
    other = f"ben:{HASH}:web:reader"
    text = f"# people\n{LINE}\n\n{other}\n"
    (mara, _) = users.parsed(PATH, text)
    assert users.without_user(text, "mara") == f"# people\n\n{other}\n"
    assert users.without_user(text, "people") == text
    changed = users.with_user(text, users.with_password(mara, "another one"))
    assert changed.splitlines()[0] == "# people"
    assert changed.splitlines()[3] == other
    (mara, _) = users.parsed(PATH, changed)
    assert mara.hash.fits("another one")
    assert (mara.project, mara.roles) == ("web", ("member", "override"))


def test_a_rewritten_file_is_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "users"
    rewrite(path, lambda text: f"{text}{LINE}\n", create=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.stat().st_ino
    rewrite(path, lambda text: f"# x\n{text}")
    assert path.read_text() == f"# x\n{LINE}\n"
    assert path.stat().st_ino != before
    assert [p.name for p in tmp_path.iterdir()] == ["users"]


def test_what_the_server_would_refuse_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "users"
    rewrite(path, lambda _: f"{LINE}\n", create=True)
    with pytest.raises(ConfigError, match="line 1 "):
        rewrite(path, lambda _: "nonsense\n")
    assert path.read_text() == f"{LINE}\n"
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        rewrite(path, lambda text: text)
    with pytest.raises(ConfigError, match="No such file"):
        rewrite(tmp_path / "none", lambda text: text)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").touch(mode=0o600)
    (tmp_path / "users").symlink_to("real")
    rewrite(tmp_path / "users", lambda _: f"{LINE}\n")
    assert (tmp_path / "users").is_symlink()
    assert (tmp_path / "real").read_text() == f"{LINE}\n"


def test_changes_at_the_same_time_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "users"
    rewrite(path, lambda _: "", create=True)

    def add(name: str) -> None:
        user = User(name=name, hash=HASH, project="web", roles=("member",))
        rewrite(path, lambda text: users.with_user(text, user))

    threads = [threading.Thread(target=add, args=(f"user-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = users.parsed(path, read_private(path, users.SETTING))
    assert {user.name for user in found} == {f"user-{n}" for n in range(8)}

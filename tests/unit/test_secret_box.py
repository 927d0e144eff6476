"""Secrets under seal: they open for their place and by their key alone, and stand nowhere plain."""

from __future__ import annotations

import stat
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from yaffle.errors import ConfigError
from yaffle.integrations.secret_box import IdKeys, KeyFile, SealBroken, Sealed, add_key

CANARY = "canary-5f1d9c"
PLACE = ("cloud", "project")


def keys(tmp_path: Path) -> KeyFile:
    path = tmp_path / "keys"
    add_key(path)
    return KeyFile(path)


def told(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_what_was_sealed_opens_again(tmp_path: Path) -> None:
    file = keys(tmp_path)
    sealed = file.seal({"secret": CANARY}, PLACE)
    assert CANARY not in sealed.blob
    assert sealed.key_id == file.newest
    assert file.open(sealed, PLACE) == {"secret": CANARY}


def test_it_opens_for_its_own_place_alone(tmp_path: Path) -> None:
    file = keys(tmp_path)
    sealed = file.seal({"secret": CANARY}, PLACE)
    with pytest.raises(SealBroken, match="sealed for something else") as error:
        file.open(sealed, ("cloud", "another project"))
    assert CANARY not in told(error.value)


def test_the_newest_key_seals_and_the_older_ones_open(tmp_path: Path) -> None:
    file = keys(tmp_path)
    old = file.seal({"secret": CANARY}, PLACE)
    fresh = add_key(tmp_path / "keys")
    assert file.newest == fresh != old.key_id
    assert file.open(old, PLACE) == {"secret": CANARY}
    assert file.seal({}, PLACE).key_id == fresh


def test_a_lost_key_is_named_and_its_file_put_back_opens_again(tmp_path: Path) -> None:
    file, path = keys(tmp_path), tmp_path / "keys"
    sealed = file.seal({"secret": CANARY}, PLACE)
    before = path.read_text()
    path.unlink()
    add_key(path)
    with pytest.raises(SealBroken, match=sealed.key_id) as error:
        file.open(sealed, PLACE)
    assert "put that key back" in error.value.hint
    assert before.strip() not in told(error.value)
    path.write_text(path.read_text() + before)
    assert file.open(sealed, PLACE) == {"secret": CANARY}


def test_what_was_changed_does_not_open(tmp_path: Path) -> None:
    file = keys(tmp_path)
    sealed = file.seal({"secret": CANARY}, PLACE)
    changed = Sealed(key_id=sealed.key_id, blob=sealed.blob[:-8] + "AAAAAAA=")
    with pytest.raises(SealBroken, match="it was changed") as error:
        file.open(changed, PLACE)
    assert sealed.blob not in told(error.value)


@pytest.mark.parametrize("mode", [0o620, 0o604, 0o660])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    file = keys(tmp_path)
    sealed = file.seal({"secret": CANARY}, PLACE)
    (tmp_path / "keys").chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        file.check()
    # In the middle of the night the same is no usage error, but a thing that is away.
    with pytest.raises(SealBroken, match="chmod 600"):
        file.open(sealed, PLACE)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("", "has no key", id="empty"),
        pytest.param("# nothing\n\n", "has no key", id="a remark"),
        pytest.param(f"{CANARY}\n", "is no key", id="no key"),
        pytest.param("ключ\n", "no text of keys", id="letters"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "keys"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(ConfigError, match=fault) as error:
        KeyFile(path).check()
    assert CANARY not in told(error.value)


def test_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        KeyFile(tmp_path / "keys").check()


def test_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    keys(tmp_path)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]


def test_a_file_that_is_broken_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.touch(0o600)
    path.write_text("half a k")
    with pytest.raises(ConfigError):
        add_key(path)
    assert path.read_text() == "half a k"


IDENT = "7546f2d1-8df2-4d0a-b910-a001c959caec"


def test_an_id_is_shown_by_its_key_at_its_place_alone(tmp_path: Path) -> None:
    path = tmp_path / "receivers.key"
    keys = IdKeys(path)
    keys.check()
    assert not path.exists()
    hidden = keys.hide(IDENT, "place")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert IDENT.encode().hex() not in hidden
    assert hidden != keys.hide(IDENT, "another")
    assert keys.show(hidden, "place", IDENT.__eq__) == IDENT
    assert keys.show(hidden, "another", IDENT.__eq__) is None
    assert keys.show("no hex", "place", IDENT.__eq__) is None
    add_key(path)
    assert keys.hide(IDENT, "place") != hidden
    assert keys.show(hidden, "place", IDENT.__eq__) == IDENT
    path.unlink()
    assert keys.show(hidden, "place", IDENT.__eq__) is None


def test_two_who_need_the_first_key_at_once_have_the_same(tmp_path: Path) -> None:
    path, start = tmp_path / "receivers.key", threading.Barrier(8)

    def hide(_: int) -> str:
        start.wait()
        return IdKeys(path).hide(IDENT, "place")

    with ThreadPoolExecutor(8) as pool:
        hidden = set(pool.map(hide, range(8)))
    assert {IdKeys(path).show(one, "place", IDENT.__eq__) for one in hidden} == {IDENT}
    assert len(hidden) == 1


def test_no_key_of_ids_that_others_may_read_is_used(tmp_path: Path) -> None:
    path = tmp_path / "receivers.key"
    hidden = IdKeys(path).hide(IDENT, "place")
    path.chmod(0o604)
    assert IdKeys(path).show(hidden, "place", IDENT.__eq__) is None
    for use in (IdKeys(path).check, lambda: IdKeys(path).hide(IDENT, "place")):
        with pytest.raises(ConfigError, match="others may read"):
            use()
    with pytest.raises(ConfigError, match=r"receivers\.keys_file"):
        IdKeys(tmp_path / "none", setting="receivers.keys_file").hide(IDENT, "place")

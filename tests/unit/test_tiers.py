"""Every test belongs to one tier, and what is planted in core and engine names tests of the first."""

from __future__ import annotations

from pathlib import Path

from tests.planted.run import PLANTED, ROOT, caught_by
from tests.tiers import TIERS

FOLDERS = [folder for folders in TIERS.values() for folder in folders]


def test_every_file_of_tests_belongs_to_exactly_one_tier() -> None:
    places = (ROOT / "tests", ROOT / "packages")
    kinds = ("test_*.py", "*.story")
    files = [path for place in places for kind in kinds for path in place.rglob(kind)]
    names = [str(path.relative_to(ROOT)) for path in files]
    assert len(names) > 400
    wrong = {n: k for n in names if (k := sum(n.startswith(f"{f}/") for f in FOLDERS)) != 1}
    assert wrong == {}


def test_every_folder_of_a_tier_is_there() -> None:
    assert [f for f in FOLDERS if not any((ROOT / f).rglob("*.*"))] == []


def test_nine_of_ten_bugs_planted_in_core_and_engine_name_a_test_of_the_first_tier() -> None:
    def named(patch: Path) -> bool:
        return any(test.startswith(f"{f}/") for test in caught_by(patch) for f in TIERS["first"])

    patches = [*PLANTED.glob("core/*.patch"), *PLANTED.glob("engine/*.patch")]
    assert len(patches) > 300
    assert sum(map(named, patches)) / len(patches) >= 0.9

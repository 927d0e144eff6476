"""Every planted bug still fits the code: one that does not apply proves nothing any more."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.planted.run import PLANTED, ROOT, DoesNotApply, apply, caught_by

PATCHES = sorted(PLANTED.glob("*/*.patch"))


def changed(patch: Path) -> list[str]:
    """Return the files that a patch changes."""
    return re.findall(r"^--- a/(\S+)", patch.read_text(), re.MULTILINE)


def test_there_are_patches() -> None:
    assert len(PATCHES) > 40


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_it_applies_and_names_tests_that_exist(patch: Path, tmp_path: Path) -> None:
    before = {}
    for name in changed(patch):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
        before[name] = (tmp_path / name).read_text()
    apply(patch, tmp_path)
    # git calls it a success, too, when it has skipped every file.
    assert all((tmp_path / name).read_text() != text for name, text in before.items())
    assert before
    for name in before:
        if name.endswith(".py"):
            # A program that cannot even be read is caught by any test, and proves nothing.
            compile((tmp_path / name).read_text(), name, "exec")
    tests = caught_by(patch)
    assert tests
    for test in tests:
        path, _, name = test.partition("::")
        place = ROOT / path
        assert place.exists(), test
        assert not name or f" {name.partition('[')[0]}(" in place.read_text(), test


def test_one_that_does_not_apply_is_told(tmp_path: Path) -> None:
    patch = tmp_path / "unfit.patch"
    patch.write_text("--- a/x.py\n+++ b/x.py\n@@ -1,1 +1,1 @@\n-is not there\n+is\n")
    (tmp_path / "x.py").write_text("something else\n")
    with pytest.raises(DoesNotApply, match=r"x\.py"):
        apply(patch, tmp_path)

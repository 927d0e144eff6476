"""Which interpreter serves apart: this very version's, also where another program embeds Python."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from yaffle_health.apart import interpreter
from yaffle_health.endpoint import serve
from yaffle_health.errors import BadOption
from yaffle_health.manager import Manager

NAME = f"python{sys.version_info.major}.{sys.version_info.minor}"


def program(path: Path) -> str:
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_it_is_the_one_that_runs() -> None:
    command = [
        interpreter.find(),
        "-I",
        "-S",
        "-c",
        "import sys; print(sys.implementation.cache_tag)",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.strip() == sys.implementation.cache_tag


def test_only_a_name_or_the_running_file_counts(tmp_path: Path) -> None:
    uwsgi, other = program(tmp_path / "uwsgi"), program(tmp_path / "python2.7")
    plain, exact = program(tmp_path / "python"), program(tmp_path / NAME)
    (tmp_path / "python3").symlink_to(exact)
    link = str(tmp_path / "python3")

    def chosen(*paths: str, running: str = uwsgi) -> str | None:
        return interpreter.chosen(paths, NAME, running)

    assert chosen("", uwsgi, other, plain, link, exact) == link
    assert chosen(uwsgi, exact) == exact
    assert chosen("", uwsgi, other, plain) is None, (
        "uwsgi runs, and is no Python; nor are the others"
    )
    assert chosen(plain, running=plain) == plain, "a copy, as in some virtual environments"
    assert chosen(str(tmp_path / "none")) is None
    Path(exact).chmod(0o644)
    assert chosen(exact, str(tmp_path)) is None


def test_none_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where uwsgi embeds Python, and no python3.x is beside it."""
    for name in ("prefix", "base_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, str(tmp_path))
    monkeypatch.setattr(sys, "executable", shutil.which("sh"))
    monkeypatch.setattr(sys, "_base_executable", "")
    uri = f"unix://{tmp_path}/health.sock"
    with pytest.raises(BadOption, match=f"no program {NAME} was found in {tmp_path}/bin"):
        serve(Manager(), uri=uri, apart=True, required=True)
    endpoint = serve(Manager(), uri=uri, apart=True)
    assert [type(each) for each in endpoint.failures] == [BadOption]
    assert not endpoint.running
    assert list(tmp_path.iterdir()) == []
    assert "leave this option out" in caplog.text
    assert serve(Manager(), uri="", apart=True).failures == (), "disabled needs no interpreter"
    # A prefix that holds it is enough.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(Path("/proc/self/exe").readlink())
    assert Path(interpreter.find()).parent == tmp_path / "bin"

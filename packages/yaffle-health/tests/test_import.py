"""Importing it costs a service next to nothing: what is loaded, and that every name is there."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import yaffle_health

# None of these is needed to remember how a process is.
HEAVY = """asyncio concurrent.futures email http json logging multiprocessing pathlib rfc3986 select
selectors socket ssl subprocess tempfile threading traceback urllib uuid oslo_config prometheus_client"""


def loaded_by(statement: str) -> set[str]:
    program = f"""
        import sys
        before = set(sys.modules)
        {statement}
        print(*sorted(set(sys.modules) - before))
    """
    # Without site: an editable install brings modules of its own.
    found = subprocess.run(
        [
            sys.executable,
            "-S",
            "-E",
            "-c",
            f"import sys; sys.path[:] = {sys.path!r}\n" + textwrap.dedent(program),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(found.stdout.split())


def test_the_bare_import_loads_one_module() -> None:
    assert {m for m in loaded_by("import yaffle_health") if m != "__future__"} == {"yaffle_health"}


def test_the_manager_and_the_decorator_load_nothing_heavy() -> None:
    loaded = loaded_by("from yaffle_health import Manager, healthcheck, use; Manager().health()")
    assert sorted(loaded & set(HEAVY.split())) == []


def test_what_listens_is_loaded_by_who_listens() -> None:
    loaded = loaded_by("from yaffle_health import Manager, healthcheck, serve; Manager().health()")
    assert sorted(loaded & set(HEAVY.split())) == []
    assert not [name for name in loaded if name.startswith("yaffle_health.server")]


def test_an_endpoint_loads_no_cryptography() -> None:
    loaded = loaded_by("from yaffle_health import Endpoint")
    assert sorted(loaded & {"asyncio", "hashlib", "hmac", "random", "secrets"}) == []


def test_every_name_is_there_and_no_other() -> None:
    for name in yaffle_health.__all__:
        assert getattr(yaffle_health, name) is not None
        assert name in dir(yaffle_health)
    with pytest.raises(AttributeError, match="no_such_name"):
        yaffle_health.no_such_name  # type: ignore[attr-defined]  # noqa: B018

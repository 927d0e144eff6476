"""HOST fencing with the real `fence_ipmilan` against a BMC that `ipmi_sim` plays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.fencers_host.bmc import MISSING, PASSWORD, Bmc
from tests.contract.fencers_host.rack import Rack, command_lines, node, running
from tests.private import private

from yaffle.model.operations import FenceResult, FenceVerdict

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"there is no {', '.join(MISSING)}")
CONFIRMED, UNKNOWN = FenceVerdict.CONFIRMED, FenceVerdict.UNKNOWN


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[Bmc]:
    (tmp_path / "bmc").mkdir()
    found = Bmc(tmp_path / "bmc")
    yield found
    found.kill()


@pytest.fixture
def ipmi(rack: Rack, bmc: Bmc) -> Rack:
    """The rack with the real agent for its device, settings as in the how-to."""
    rack.settings |= {
        "agent": "fence_ipmilan",
        "hosts": ["cmp1"],
        "options": {
            "ip": "127.0.0.1",
            "ipport": bmc.port,
            "username": "admin",
            "lanplus": True,
            "power_wait": 0,
            # Without it ipmitool asks for the cipher suites, and ipmi_sim never answers: 14 s.
            "cipher": 3,
        },
        "password_file": str(bmc.folder / "password"),
    }
    return rack


def fenced(ipmi: Rack, calls: int = 15) -> FenceResult:
    """Fence as the engine does: calls of four seconds, until one is proved."""
    for _ in range(calls):
        result = ipmi.fence(node(), deadline_s=4)
        if result.verdict is not UNKNOWN:
            break
    return result


def test_a_machine_is_switched_off_and_proved_to_be(ipmi: Rack, bmc: Bmc) -> None:
    result = fenced(ipmi)
    assert result.verdict is CONFIRMED, result
    assert bmc.power == "off"
    assert "is off" in bmc.ask("chassis", "power", "status")
    assert set(bmc.switched) == {"power=0"}
    assert result.proof is not None
    assert result.proof.method.startswith("fence_ipmilan ")
    again = ipmi.fence(node())
    assert again.verdict is CONFIRMED
    assert "already off" in again.detail


def test_a_wrong_password_proves_nothing(ipmi: Rack, bmc: Bmc) -> None:
    wrong = bmc.folder / "wrong"
    private(wrong, "not-the-password")
    ipmi.settings["password_file"] = str(wrong)
    result = ipmi.fence(node(), deadline_s=4)
    assert result.verdict is UNKNOWN, result
    assert bmc.switched == []


@pytest.mark.parametrize("how", ["dead", "frozen"])
def test_a_controller_that_does_not_answer_proves_nothing(ipmi: Rack, bmc: Bmc, how: str) -> None:
    # Frozen, its port is open and takes what is sent; dead, the kernel says that nobody listens.
    bmc.kill() if how == "dead" else bmc.freeze()
    result = ipmi.fence(node(), deadline_s=2)
    assert result.verdict is UNKNOWN, result
    assert "nothing was done" in result.detail
    assert running(f"-p {bmc.port}") == []


def test_a_controller_that_says_ok_and_stays_on_proves_nothing(ipmi: Rack, bmc: Bmc) -> None:
    (bmc.folder / "stuck").touch()
    result = ipmi.fence_on(node(), deadline_s=4, enough=lambda _: "power=0" in bmc.switched)
    assert result.verdict is UNKNOWN, result
    assert "power=0" in bmc.switched
    assert bmc.power == "on"
    # It gives way: the next call proves it.
    (bmc.folder / "stuck").unlink()
    assert fenced(ipmi).verdict is CONFIRMED


def test_the_agents_command_line_holds_no_password(ipmi: Rack, bmc: Bmc) -> None:
    seen: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            seen.update(command_lines().values())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        result = fenced(ipmi)
    finally:
        over.set()
        watcher.join()
    assert result.verdict is CONFIRMED
    assert any("fence_ipmilan" in words for words in seen)
    # What fence_ipmilan itself starts has it for the moment until ipmitool wipes it (howto).
    ours = [words for words in seen if not words.startswith("/usr/bin/ipmitool ")]
    assert [words for words in ours if PASSWORD in words] == []
    assert PASSWORD not in repr(result)

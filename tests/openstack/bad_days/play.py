"""Plays bad days: an outage of the given length in every phase of Yaffle's work at the same time.

    python -m tests.openstack.bad_days [--minutes 10] [--outages …] [--phases …] [--state DIR]

One Yaffle and one project for each phase; all of them share the outage, so that a row of the table
takes as long as one outage. The lab is one of its own, or one that you have brought up and that nobody
else uses: its services are stopped. A machine that is busy with other work takes too long over it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.openstack import Lab
from lab.openstack.lab import new
from lab.openstack.progress import Progress
from tests.openstack.bad_days.outages import OUTAGES, without
from tests.openstack.bad_days.scenes import PHASES, Phase, Scene, scene, until_sprung

SETTLE_S: Final = 600.0
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What came of one phase in one outage."""

    outage: str
    phase: str
    out_s: float
    settled_s: float | None
    """After the end of the outage; None: not within the bound."""
    asked: int
    """Acts that were asked for during the outage."""
    taken: int
    """Of these, those that Nova has accepted."""
    wrongs: tuple[str, ...]

    @property
    def well(self) -> bool:
        """Whether all was as it should be."""
        return self.settled_s is not None and not self.wrongs

    def row(self) -> str:
        """One line of the table."""
        settled = "never" if self.settled_s is None else f"{self.settled_s:.0f} s"
        return (
            f"  {self.outage:<18}{self.phase:<10}{self.out_s:7.0f} s{settled:>10}"
            f"{self.asked:>8}{self.taken:>8}   {'as it should be' if self.well else 'WRONG'}"
        )


HEAD: Final = f"  {'outage':<18}{'phase':<10}{'lasted':>9}{'settled':>10}{'asked':>8}{'taken':>8}"


def play(
    lab: Lab, outage: str, phases: Sequence[Phase], seconds: float, folder: Path, tell: Tell
) -> list[Told]:
    """Play one outage; return what came of each phase."""
    with ExitStack() as stack:
        scenes = [stack.enter_context(scene(lab, p, folder / p.name)) for p in phases]
        for one in scenes:
            one.begin()
        for one in scenes:
            one.ready()
        tell(f"{outage}: {len(scenes)} clusters are well")
        for one in scenes:
            one.fail()
        until_sprung(scenes)
        tell(f"{outage}: it begins in the middle of {', '.join(p.name for p in phases)}")
        began_s = time.monotonic()
        with without(lab, outage, [s.gate for s in scenes]):
            out_s = time.monotonic()
            for one in scenes:
                one.phase.meanwhile(one)
            time.sleep(max(0.0, began_s + seconds - time.monotonic()))
            back_s = time.monotonic()
        tell(f"{outage}: over after {back_s - out_s:.0f} s")
        return _judged(scenes, outage, out_s, back_s, tell)


def _judged(
    scenes: list[Scene], outage: str, out_s: float, back_s: float, tell: Tell
) -> list[Told]:
    """Judge each as soon as it is as it should be; one that does not settle takes nobody's time."""
    told: dict[str, Told] = {}
    until_s = time.monotonic() + SETTLE_S
    while waiting := [one for one in scenes if one.phase.name not in told]:
        late = time.monotonic() >= until_s
        for one in waiting:
            # Yaffle's word alone may be of before the outage: what failed meanwhile it has still to see.
            found = _told(one, outage, out_s, back_s)
            if late or found.well:
                told[one.phase.name] = found
                tell(_words(one, found, out_s))
        time.sleep(0.5)
    return [told[one.phase.name] for one in scenes]


def _told(one: Scene, outage: str, out_s: float, back_s: float) -> Told:
    """Return how it stands with a phase now: looked at once, for much changes in these seconds."""
    settled_s = time.monotonic() - back_s if one.settled() else None
    asked = one.gate.writes(out_s, back_s)
    return Told(
        outage=outage,
        phase=one.phase.name,
        out_s=back_s - out_s,
        settled_s=settled_s,
        asked=len(asked),
        taken=sum(200 <= seen.status < 300 for seen in asked),
        wrongs=tuple(one.wrongs(out_s, back_s)),
    )


def _words(one: Scene, told: Told, out_s: float) -> str:
    """Return its row, and where it is not as it should be all that is known about it."""
    words = [told.row().strip(), *(f"  WRONG: {wrong}" for wrong in told.wrongs)]
    if not told.well:
        words.append(one.why())
        words += [
            f"  {seen.at_s - out_s:8.1f} s {seen.act} {seen.server or seen.node} -> {seen.status}"
            for seen in one.gate.writes()
        ]
        if one.yaffle.running is not None:
            words += one.yaffle.running.lines[-40:]
    return "\n".join(words)


@contextmanager
def own_lab(state: Path | None) -> Iterator[Lab]:
    """Give the lab of that folder, or one that lasts as long as the block."""
    if state is not None:
        yield Lab.at(state)
        return
    with tempfile.TemporaryDirectory(prefix="bad-lab-") as folder:
        Path(folder).chmod(0o711)
        lab = new(Path(folder) / "lab")
        try:
            lab.up(Progress())
            yield lab
        finally:
            lab.down()
            lab.remove()


def main() -> None:
    """Play what was asked for, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.openstack.bad_days")
    parser.add_argument("--state", type=Path, help="a lab that runs already, and nobody else uses")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long each outage lasts")
    parser.add_argument("--outages", nargs="+", choices=OUTAGES, default=list(OUTAGES))
    parser.add_argument("--phases", nargs="+", choices=list(PHASES), default=list(PHASES))
    options = parser.parse_args()
    # Whoever ends this ends the Yaffles too, and gives back what was taken away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    began_s = time.monotonic()

    def tell(words: str) -> None:
        print(f"{time.monotonic() - began_s:7.0f} s  {words}", flush=True)

    told: list[Told] = []
    with tempfile.TemporaryDirectory(prefix="bad-days-") as folder, own_lab(options.state) as lab:
        for outage in options.outages:
            phases = [PHASES[name] for name in options.phases]
            place = Path(folder) / outage
            told += play(lab, outage, phases, options.minutes * 60, place, tell)
            lab.repair()
    print(f"\n{HEAD}")
    for one in told:
        print(one.row())
    sys.exit(0 if all(one.well for one in told) else 1)

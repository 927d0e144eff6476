"""The public kit for driver authors: a scripted world, virtual time, and checks of every port."""

from yaffle.testing.clock import VirtualClock
from yaffle.testing.detector import ScriptedDetector
from yaffle.testing.faults import Broken, Fault, FaultPlan, Rule
from yaffle.testing.fencer import ScriptedFencer
from yaffle.testing.loop import Deadlock, TooLong, VirtualLoop, run_virtual
from yaffle.testing.notifier import ScriptedNotifier
from yaffle.testing.profile import ForgetfulProfile, ScriptedProfile
from yaffle.testing.world import Act, Copy, Fate, Job, World

__all__ = [
    "Act",
    "Broken",
    "Copy",
    "Deadlock",
    "Fate",
    "Fault",
    "FaultPlan",
    "ForgetfulProfile",
    "Job",
    "Rule",
    "ScriptedDetector",
    "ScriptedFencer",
    "ScriptedNotifier",
    "ScriptedProfile",
    "TooLong",
    "VirtualClock",
    "VirtualLoop",
    "World",
    "run_virtual",
]

"""The public kit for driver authors: a scripted world, virtual time, and checks of every port."""

from yaffle.testing.checks.abilities import check_adopting, check_update
from yaffle.testing.checks.detector import check_detector
from yaffle.testing.checks.fencer import check_fencer
from yaffle.testing.checks.host_monitor import check_host_monitor
from yaffle.testing.checks.notifier import check_alert_driver, check_notifier
from yaffle.testing.checks.profile import check_profile
from yaffle.testing.checks.workflow import check_workflow
from yaffle.testing.clock import VirtualClock
from yaffle.testing.detector import ScriptedDetector
from yaffle.testing.faults import Broken, Fault, FaultPlan, Rule
from yaffle.testing.fencer import ScriptedFencer, ScriptedHostFencer
from yaffle.testing.host_monitor import ScriptedHostMonitor
from yaffle.testing.loop import Deadlock, TooLong, VirtualLoop, run_virtual
from yaffle.testing.notifier import ScriptedAlerts, ScriptedNotifier
from yaffle.testing.profile import ForeseeingProfile, ForgetfulProfile, ScriptedProfile
from yaffle.testing.world import Act, Copy, Fate, Job, World

__all__ = [
    "Act",
    "Broken",
    "Copy",
    "Deadlock",
    "Fate",
    "Fault",
    "FaultPlan",
    "ForeseeingProfile",
    "ForgetfulProfile",
    "Job",
    "Rule",
    "ScriptedAlerts",
    "ScriptedDetector",
    "ScriptedFencer",
    "ScriptedHostFencer",
    "ScriptedHostMonitor",
    "ScriptedNotifier",
    "ScriptedProfile",
    "TooLong",
    "VirtualClock",
    "VirtualLoop",
    "World",
    "check_adopting",
    "check_alert_driver",
    "check_detector",
    "check_fencer",
    "check_host_monitor",
    "check_notifier",
    "check_profile",
    "check_update",
    "check_workflow",
    "run_virtual",
]

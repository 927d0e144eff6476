#!/usr/bin/python3 -ISs
"""A fence agent that is honest by default: its device is a file, and a plan beside it says its whims.

Reads `key=value` lines like any of fence-agents. `device` names a folder: `power` holds on or off,
`plan.json` maps an action to what it does instead, `calls` gets a line a run, `environ` its surroundings.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

options = dict(line.rstrip("\n").split("=", 1) for line in sys.stdin if "=" in line)
device, action = Path(options["device"]), options.get("action", "reboot")
power = device / "power"
with (device / "calls").open("a") as calls:
    calls.write(f"{action} {options.get('plug', '-')} {os.getpid()}\n")
(device / "seen.json").write_text(
    json.dumps(
        {"argv": sys.argv, "env": dict(os.environ), "cwd": str(Path.cwd()), "options": options}
    )
)
plan = json.loads((device / "plan.json").read_text()).get(action, {})

if "children" in plan:
    # One in another session, one that has let go of its parent.
    for words in (
        ["setsid", "sleep", plan["children"]],
        ["sh", "-c", f"sleep {plan['children']} &"],
    ):
        subprocess.Popen(words)
    time.sleep(0.2)
    (device / "has-children").touch()
if plan.get("works"):
    power.write_text("off")
if "wait" in plan:
    time.sleep(plan["wait"])
if "flood" in plan:
    for _ in range(plan["flood"]):
        print("x" * 99_999)
if "print" in plan:
    print(plan["print"].format(**options))
if "complain" in plan:
    print(plan["complain"].format(**options), file=sys.stderr)
if "signal" in plan:
    os.kill(os.getpid(), plan["signal"])
if "exit" in plan:
    sys.exit(plan["exit"])

if action == "off":
    if not plan.get("ignore"):
        power.write_text("off")
    print("Success: Powered OFF")
elif action == "status":
    word = power.read_text().strip()
    print(f"Status: {word.upper()}")
    sys.exit(2 if word == "off" else 0)
else:
    sys.exit(1)

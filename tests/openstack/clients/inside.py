"""Runs `openstack` for a test, many commands in one process: starting one takes longer than a command.

Runs with the clients' interpreter. Each line of the input is a list of words, as JSON; each line of
the output says how that command ended, what it printed, and what it complained of.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

from openstackclient.shell import OpenStackShell


def run(words: list[str]) -> dict[str, object]:
    """Run one command as `openstack WORDS` does, in a shell that remembers nothing of the last."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = OpenStackShell().run(words)
        except SystemExit as end:
            code = end.code
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)

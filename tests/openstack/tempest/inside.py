"""Runs tests of senlin-tempest-plugin with the clients' interpreter; a line of JSON for each of them.

Arguments: names of tests, modules or classes below `senlin_tempest_plugin.tests.api`; none: all.
The plugin's servers are those of a DevStack; `TEMPEST_SERVER` (JSON) says what they are here.
"""
# ruff: noqa: N802 - unittest calls these methods by these names

from __future__ import annotations

import json
import os
import re
import sys
import time
import unittest
from pathlib import Path
from typing import Any

from senlin_tempest_plugin.common import constants
from senlin_tempest_plugin.tests import api
from tempest import config
from tempest.test_discover import plugins

BELOW = f"{api.__name__}."
WORDS_MAX = 600


class Told(unittest.TestResult):
    """Says each result at once: who waits sees how far it is."""

    began = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.began = time.monotonic()

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        # One of them writes on what all share: every later server would be as slow as its own.
        constants.spec_nova_server["properties"].pop("metadata", None)

    def addSuccess(self, test: unittest.TestCase, details: Any = None) -> None:
        self.say(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: Any = None, details: Any = None) -> None:
        self.say(test, "skipped", str(reason or details))

    def addFailure(self, test: unittest.TestCase, err: Any = None, details: Any = None) -> None:
        self.say(test, "failed", self.story(test, err, details))

    def addError(self, test: unittest.TestCase, err: Any = None, details: Any = None) -> None:
        self.say(test, "failed", self.story(test, err, details))

    def story(self, test: unittest.TestCase, err: Any, details: Any) -> str:
        """Return how it ended, without the way there; testtools gives texts, unittest an exception."""
        if not details:
            return str(self._exc_info_to_string(err, test))[-WORDS_MAX:]
        texts = [text for name, text in sorted(details.items()) if name.startswith("traceback")]
        return "\n".join(text.as_text() for text in texts)[-WORDS_MAX:]

    def say(self, test: unittest.TestCase, outcome: str, why: str = "") -> None:
        """Print a result, named without the ids that the plugin puts behind each name."""
        name = re.sub(r"\[.*", "", test.id()).replace(BELOW, "")
        took = round(time.monotonic() - self.began, 1) if self.began else 0.0
        print(json.dumps({"name": name, "outcome": outcome, "why": why, "s": took}), flush=True)


def suite(names: list[str]) -> unittest.TestSuite:
    """Return the tests of these names, or all."""
    loader = unittest.defaultTestLoader
    if names:
        return unittest.TestSuite(loader.loadTestsFromName(BELOW + name) for name in names)
    folder = Path(api.__file__).parent
    return loader.discover(str(folder), top_level_dir=str(folder.parents[2]))


if __name__ == "__main__":
    plugins.TempestTestPluginManager().register_plugin_opts(config.CONF)
    constants.spec_nova_server["properties"].update(json.loads(os.environ["TEMPEST_SERVER"]))
    suite(sys.argv[1:]).run(Told())

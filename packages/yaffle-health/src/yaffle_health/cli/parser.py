"""What the command line takes, in the standard library's words: the bare library depends on nothing."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from typing import NoReturn

from yaffle_health.cli.codes import MEANINGS, ExitCode

ENVIRONMENT = "YAFFLE_HEALTH_URI"
UNTIL = ("pass", "warn", "fail", "gone")
ADDRESSES = """\
  unix:///run/app.sock   tcp://127.0.0.1:9000   tcp://[::1]:9000   http://host:8080/actuator/health
  /run/app.sock          127.0.0.1:9000         /run/app/  (a directory: the sockets of prefork workers)
"""
# A comma, if what follows it begins as an address does.
_BETWEEN = re.compile(r",(?=\s*(?:/|[A-Za-z]+:/|\[|[\w.-]+:[0-9]|,))")
_EPILOG = f"""\
an ADDRESS is one of
{ADDRESSES}or several with commas between them. Without one, the variable {ENVIRONMENT} is read.
"""


class Parser(argparse.ArgumentParser):
    """argparse exits with 2 for a typing error, which here means that a service fails."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, and exit with 64 (EX_USAGE of sysexits.h)."""
        self.exit(ExitCode.USAGE, f"{self.format_usage()}{self.prog}: {message}\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return what was asked for; a mistake ends the process with code 64."""
    parser = build()
    asked = parser.parse_args(arguments)
    if hasattr(asked, "addresses"):
        given = asked.addresses or [os.environ.get(ENVIRONMENT, "")]
        asked.addresses = [one for text in given for one in addresses(text)]
        if not asked.addresses:
            parser.error(f"no ADDRESS is given, and {ENVIRONMENT} is not set")
    return asked


def addresses(text: str) -> list[str]:
    """Take a list apart as the option `uri` has it; a comma within a path or a query stays."""
    pieces = _BETWEEN.split(text.strip(" \t\n,"))
    return [stripped for piece in pieces if (stripped := piece.strip(" \t\n,"))]


class Version(argparse.Action):
    """Says the version of what is installed, which nothing but this question has to read."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: argparse.Namespace,
        _values: object,
        _option: str | None = None,
    ) -> NoReturn:
        """Print it and exit."""
        from importlib import metadata

        try:
            version = metadata.version("yaffle-health")
        except metadata.PackageNotFoundError:
            version = "of a source tree"
        print(f"yaffle-health {version}")
        parser.exit()


def build() -> Parser:
    """Return the parser; the documentation's help texts are made from it."""
    parser = Parser(
        prog="yaffle-health",
        description="Ask processes how they are, in either shape of /health, over TCP or UNIX sockets.",
        epilog=_EPILOG + _codes(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=Version, nargs=0, help="say the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _get(_command(commands, "get", "ask once and say what was found"))
    _watch(_command(commands, "watch", "ask again and again and say what changes"))
    _wait(_command(commands, "wait", "wait until a process is well (or is not, or is gone)"))
    _gather(_command(commands, "gather", "serve one /health for all the workers of a directory"))
    return parser


def _codes() -> str:
    lines = [f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items()]
    return "\n".join(["", "exit codes", *lines])


def _command(commands: argparse._SubParsersAction[Parser], name: str, words: str) -> Parser:
    return commands.add_parser(
        name,
        help=words,
        description=f"{words[0].upper()}{words[1:]}.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _get(parser: Parser) -> None:
    _asking(parser)
    _warn_ok(parser)
    parser.add_argument(
        "--probe",
        action="store_true",
        help="for HEALTHCHECK and exec probes: 0 for pass and warn, else 1 and a line why",
    )


def _watch(parser: Parser) -> None:
    _asking(parser)
    _warn_ok(parser)
    parser.add_argument(
        "--interval",
        type=seconds,
        default=2.0,
        metavar="S",
        help="seconds from one question to the next (2)",
    )
    parser.add_argument(
        "--count", type=count, default=0, metavar="N", help="stop after N questions (0: never)"
    )


def _wait(parser: Parser) -> None:
    _asking(parser, timeout_s=60.0, timeout_of="to wait at most (60)")
    parser.add_argument(
        "--until",
        choices=UNTIL,
        default="pass",
        help="warn takes pass as well; gone is that nobody answers (pass)",
    )
    parser.add_argument(
        "--interval",
        type=seconds,
        default=0.2,
        metavar="S",
        help="seconds from one question to the next (0.2)",
    )


def _gather(parser: Parser) -> None:
    parser.add_argument("directory", help="the directory that the workers put their sockets in")
    parser.add_argument(
        "--uri",
        required=True,
        metavar="URI",
        help="where to answer: tcp://host:port, unix:///path, several with commas",
    )
    parser.add_argument(
        "--workers",
        type=count,
        default=0,
        metavar="N",
        help="how many there should be (0: at least one)",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=0.5,
        metavar="S",
        help="how long a worker may take to answer (0.5)",
    )
    parser.add_argument(
        "--name", default="", metavar="WORD", help="what the answer calls the service"
    )


def _asking(
    parser: Parser, *, timeout_s: float = 5.0, timeout_of: str = "for one question in all (5)"
) -> None:
    parser.add_argument("addresses", nargs="*", metavar="ADDRESS", help="whom to ask")
    parser.add_argument(
        "--group", metavar="NAME", help="only this group of checks: live, ready, start"
    )
    parser.add_argument(
        "--path", default="/health", metavar="PATH", help="what to ask for (/health)"
    )
    parser.add_argument(
        "--timeout", type=seconds, default=timeout_s, metavar="S", help=f"seconds {timeout_of}"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _warn_ok(parser: Parser) -> None:
    parser.add_argument("--warn-ok", action="store_true", help="exit with 0 for warn too")


def seconds(text: str) -> float:
    """Read a positive number of seconds, a day at most."""
    number = float(text)
    if not 0 < number <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} is not from 0 to 86400 seconds")
    return number


def count(text: str) -> int:
    """Read a whole number that is not negative."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number

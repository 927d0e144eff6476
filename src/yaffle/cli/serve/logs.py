"""Logs of a server: JSON for machines, text on a terminal; what libraries log takes the same way."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TextIO, cast

import structlog

if TYPE_CHECKING:
    from structlog.typing import Processor


class Lossy:
    """Standard error that loses lines rather than raises: a full disk must not end the healing."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write as much as there is room for."""
        with suppress(OSError):
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be."""
        with suppress(OSError):
            self._file.flush()


def configure(level: str, style: Literal["auto", "json", "text"]) -> None:
    """Send every log line to standard error, from `level` on."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    text = style == "text" or (style == "auto" and sys.stderr.isatty())
    ending: list[Processor] = (
        [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                # The pretty one shows local variables: passwords and tokens among them.
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
        if text
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    )
    structlog.configure(
        processors=[*shared, *ending],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", Lossy(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(cast("TextIO", Lossy(sys.stderr)))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING), force=True)

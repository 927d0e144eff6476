"""Logs of a server: JSON for machines, text on a terminal; what libraries log takes the same way."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Literal

import structlog

if TYPE_CHECKING:
    from structlog.typing import Processor


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
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING), force=True)

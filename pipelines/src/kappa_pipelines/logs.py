"""The driver's own log: one JSON object a line, on standard error beside Spark's."""

import logging
import sys

import structlog


def configure_logs(**always: object) -> None:
    """Log JSON lines that each carry the given fields."""
    structlog.configure(
        processors=[
            lambda _logger, _method, event: {**always, **event},
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )

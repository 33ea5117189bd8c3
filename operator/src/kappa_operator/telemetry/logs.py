"""Structured logs: one JSON object a line, from our code and from kopf alike."""

import logging
import sys

import structlog


def configure_logs(level: str) -> None:
    """Send all logs to standard error as JSON lines from the given level on."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("kopf").setLevel("WARNING")
    # It warns that it handles no signals in a thread: the operator does.
    logging.getLogger("kopf._core.reactor.running").setLevel("ERROR")
    logging.getLogger("aiokafka").setLevel("CRITICAL")  # it logs what it raises, too
    logging.getLogger("sqlglot").setLevel("CRITICAL")  # it quotes the SQL that it cannot read
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        cache_logger_on_first_use=True,
    )

"""Logs, one JSON object a line. Callers choose the fields: never an image, a code or a token."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

FIELDS = "fields"


class JsonFormatter(logging.Formatter):
    """Time, level, logger and event, then the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log(event: str, *, level: int = logging.INFO, failure: BaseException | None = None, **fields: Any) -> None:
    """Log `event` with `fields`."""
    logging.getLogger("nsh.service").log(level, event, extra={FIELDS: fields}, exc_info=failure)


def start_logs() -> None:
    """Write all logs of this process, including warnings, to standard error as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(True)

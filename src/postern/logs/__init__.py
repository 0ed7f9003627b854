"""Logging of every Postern process: one line per event, to standard error or a file, as text or JSON.

Modules use the standard library's `logging.getLogger(__name__)`; structlog only formats lines. Line ends and control
characters in messages and values are escaped, so that no peer can forge a line. Secrets are kept out twice: `Secret`
prints as `***`, and a value in `extra={...}` is replaced if its name looks like a secret's.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import IO, Any

import structlog

from postern.domain.secret import Secret
from postern.domain.text import one_line
from postern.errors import Misconfigured
from postern.logs.log_file import LogFile, LogFileHandler
from postern.logs.rotation import BoundedFile

LEVELS = ("debug", "info", "warning", "error")
AUTO, JOURNALD = "auto", "journald"
FORMATS = ("text", "json", JOURNALD)
HIDDEN = "***"
_SECRET_NAME = re.compile(r"passw|passphrase|secret|token|authorization|cookie|api_?key|private_?key|verifier", re.I)
_NOISY = ("acme", "asyncio", "asyncssh", "httpx", "httpcore", "alembic", "uvicorn", "sqlalchemy", "picows")
# These log requests and responses at the level debug, secrets included.
_TELLING = ("apprise", "azure", "boto3", "botocore", "google", "msal", "requests", "urllib3")

Event = MutableMapping[str, Any]


def configure(
    level: str,
    form: str,
    process: str,
    stream: IO[str] | None = None,
    *,
    folder: Path | None = None,
    file: LogFile | None = None,
) -> None:
    """Configure the root logger of this process. Called once, before anything logs.

    `process` names this process in each line (`supervisor`, `api`, `w1`). Lines go to `file` if there is one, else to
    `stream`, which is standard error. The last lines are also stored as JSON in `folder`, for readers of the log
    through the API. Raises Misconfigured for an unknown level or format, or a file that cannot be written.
    """
    _check("log_level", level, LEVELS)
    _check("log_format", form, (AUTO, *FORMATS))
    if form == JOURNALD and file is not None:
        raise Misconfigured(
            "POSTERN_LOG_FORMAT: journald is for standard error; use text or json together with POSTERN_LOG_FILE",
            field="log_format",
        )
    if form == AUTO:
        form = JOURNALD if file is None and stream is None and _is_read_by_journal(sys.stderr) else "text"
    handlers: list[logging.Handler] = [LogFileHandler(file) if file else logging.StreamHandler(stream or sys.stderr)]
    attach = _formatters(process)
    attach(handlers[0], {"json": _JSON, JOURNALD: _journald_line, "text": _text}[form])
    if folder is not None:
        handlers.append(BoundedFile(folder, process))
        attach(handlers[1], _JSON)
    root = logging.getLogger()
    for former in root.handlers:
        if isinstance(former, BoundedFile | LogFileHandler):
            former.close()
    root.handlers = handlers
    root.setLevel(level.upper())
    for name in (*_NOISY, *_TELLING):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def _formatters(process: str) -> Callable[[logging.Handler, Any], None]:
    before: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _Named(process),
        structlog.processors.format_exc_info,
        _clean,
    ]

    def attach(handler: logging.Handler, renderer: Any) -> None:
        drop = structlog.stdlib.ProcessorFormatter.remove_processors_meta
        handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=[drop, renderer]))

    return attach


def _is_read_by_journal(stream: IO[str]) -> bool:
    """Return whether systemd's journal reads the stream, as sd-daemon(3) describes."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError, AttributeError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise Misconfigured(
            f"POSTERN_{name.upper()}: unknown value {value!r}; use one of {', '.join(allowed)}", field=name
        )


class _Named:
    """Adds the process and the module to an event."""

    def __init__(self, process: str) -> None:
        self.process = process

    def __call__(self, _logger: object, _method: str, event: Event) -> Event:
        record: logging.LogRecord = event["_record"]
        event["process"] = self.process
        event["logger"] = record.name.removeprefix("postern.")
        return event


def _clean(_logger: object, _method: str, event: Event) -> Event:
    for name, value in event.items():
        if name not in ("_record", "_from_structlog"):
            event[name] = HIDDEN if _SECRET_NAME.search(name) else _safe(value)
    return event


def _safe(value: object) -> Any:
    """Return the value as JSON can hold it, without control characters and without secrets under secret-like names."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, Secret):
        return HIDDEN
    if isinstance(value, Mapping):
        return {
            one_line(str(name)): HIDDEN if _SECRET_NAME.search(str(name)) else _safe(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [_safe(inner) for inner in value]
    return one_line(str(value))


_JSON = structlog.processors.JSONRenderer()
_PRIORITIES = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}  # of syslog


def _journald_line(_logger: object, _method: str, event: Event) -> str:
    """Format an event for the journal, which has its own time: `<6>w1 relay.driver: message  key=value`."""
    priority = _PRIORITIES.get(event["level"], 6)
    return f"<{priority}>" + _line("{process} {logger}: {event}", event)


def _text(_logger: object, _method: str, event: Event) -> str:
    """Format an event: `2026-01-31T12:00:00.123456Z info     w1 relay.driver: message  key=value`."""
    return _line("{timestamp} {level:<8} {process} {logger}: {event}", event)


def _line(head: str, event: Event) -> str:
    head = head.format_map(event)
    rest = {
        key: value for key, value in event.items() if key not in ("timestamp", "level", "process", "logger", "event")
    }
    return head + ("  " + " ".join(f"{key}={_quote(value)}" for key, value in rest.items()) if rest else "")


def _quote(value: object) -> str:
    text = str(value)
    return repr(text) if " " in text or not text else text

"""Logging of every Postern process: one line per event, to standard error, as text or JSON.

Modules use the standard library's `logging.getLogger(__name__)`; structlog only formats lines. Line ends and control
characters in messages and values are escaped, so that no peer can forge a line. Secrets are kept out twice: `Secret`
prints as `***`, and a value in `extra={...}` is replaced if its name looks like a secret's.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import IO, Any

import structlog

from postern.domain.secret import Secret
from postern.domain.text import one_line
from postern.errors import Misconfigured
from postern.logs.rotation import BoundedFile

LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
HIDDEN = "***"
_SECRET_NAME = re.compile(r"passw|passphrase|secret|token|authorization|cookie|api_?key|private_?key|verifier", re.I)
_NOISY = ("asyncio", "asyncssh", "httpx", "httpcore", "alembic", "uvicorn", "sqlalchemy", "picows")
# These log requests and responses at the level debug, secrets included.
_TELLING = ("apprise", "azure", "boto3", "botocore", "google", "msal", "requests", "urllib3")

Event = MutableMapping[str, Any]


def configure(
    level: str, form: str, process: str, stream: IO[str] | None = None, *, folder: Path | None = None
) -> None:
    """Configure the root logger of this process. Called once, before anything logs.

    `process` names this process in each line (`supervisor`, `api`, `w1`). The last lines are also stored as JSON in
    `folder`, for readers of the log through the API. Raises Misconfigured for an unknown level or format.
    """
    _check("log_level", level, LEVELS)
    _check("log_format", form, FORMATS)
    before: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _Named(process),
        structlog.processors.format_exc_info,
        _clean,
    ]
    as_json = structlog.processors.JSONRenderer()

    def attach_formatter(handler: logging.Handler, renderer: Any) -> logging.Handler:
        drop = structlog.stdlib.ProcessorFormatter.remove_processors_meta
        handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=before, processors=[drop, renderer]))
        return handler

    root = logging.getLogger()
    for former in root.handlers:
        if isinstance(former, BoundedFile):
            former.close()
    root.handlers = [
        attach_formatter(logging.StreamHandler(stream or sys.stderr), as_json if form == "json" else _text)
    ]
    if folder is not None:
        root.handlers.append(attach_formatter(BoundedFile(folder, process), as_json))
    root.setLevel(level.upper())
    for name in (*_NOISY, *_TELLING):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


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


def _text(_logger: object, _method: str, event: Event) -> str:
    """Format an event: `2026-01-31T12:00:00.123456Z info     w1 relay.driver: message  key=value`."""
    head = "{timestamp} {level:<8} {process} {logger}: {event}".format_map(event)
    rest = {
        key: value for key, value in event.items() if key not in ("timestamp", "level", "process", "logger", "event")
    }
    return head + ("  " + " ".join(f"{key}={_quote(value)}" for key, value in rest.items()) if rest else "")


def _quote(value: object) -> str:
    text = str(value)
    return repr(text) if " " in text or not text else text

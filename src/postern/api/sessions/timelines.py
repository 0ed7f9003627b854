"""Exchanges as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

from postern.domain.sessions.recorded import Exchange

OUTPUT = 64 * 1024  # bytes of output of each exchange in an export


def lines(exchanges: Iterable[Exchange], start: int, end: int) -> Iterator[bytes]:
    """Yield one JSON object on each line. Times are in microseconds since the session's start, both included."""
    for exchange in exchanges:
        if exchange.micros > end:
            return
        if exchange.micros >= start:
            yield json.dumps(render_exchange(exchange), ensure_ascii=False).encode() + b"\n"


def render_exchange(one: Exchange) -> dict[str, Any]:
    """Return the exchange; times are in milliseconds."""
    found: dict[str, Any] = {
        "at": one.micros / 1000,
        "exchange": one.number or None,
        "statement": one.statement if one.statement_size else None,
        "statement_size": one.statement_size,
        "prepared": one.prepared,
        "values": [None if value is None else value.decode(errors="backslashreplace") for value in one.values],
        "truncated": one.truncated,
        "duration": None if one.duration is None else one.duration / 1000,
        "rows": one.rows,
        "tag": one.tag,
        "error": one.error,
        "error_code": one.error_code,
        "refusal": {"rule": one.rule, "message": one.refusal} if one.refusal or one.rule else None,
        "note": one.note,
    }
    if one.output or one.errors:
        found["output"] = bytes(one.output).decode(errors="replace")
        found["errors"] = bytes(one.errors).decode(errors="replace")
    if one.output_truncated:
        found["output_truncated"] = True
    return found


def text_fields(name: str, content: bytes) -> dict[str, str]:
    """Return the text; and its bytes as `base64` if they are not UTF-8."""
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {name: content.decode(errors="replace"), "base64": base64.b64encode(content).decode()}

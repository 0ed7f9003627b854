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


def render_exchange(exchange: Exchange) -> dict[str, Any]:
    """Return the exchange; times are in milliseconds."""
    entry: dict[str, Any] = {
        "at": exchange.micros / 1000,
        "exchange": exchange.number or None,
        "statement": exchange.statement if exchange.statement_size else None,
        "statement_size": exchange.statement_size,
        "prepared": exchange.prepared,
        "values": [None if value is None else value.decode(errors="backslashreplace") for value in exchange.values],
        "truncated": exchange.truncated,
        "duration": None if exchange.duration is None else exchange.duration / 1000,
        "rows": exchange.rows,
        "tag": exchange.tag,
        "error": exchange.error,
        "error_code": exchange.error_code,
        "refusal": {"rule": exchange.rule, "message": exchange.refusal} if exchange.refusal or exchange.rule else None,
        "note": exchange.note,
        "masked": _render_masked(exchange),
    }
    if exchange.output or exchange.errors:
        entry["output"] = bytes(exchange.output).decode(errors="replace")
        entry["errors"] = bytes(exchange.errors).decode(errors="replace")
    if exchange.output_truncated:
        entry["output_truncated"] = True
    return entry


def _render_masked(exchange: Exchange) -> list[dict[str, Any]]:
    return [
        {"rule": rule or None, "strategy": strategy, "info_types": sorted(values.info_types), "values": values.count}
        for (rule, strategy), values in exchange.masked.items()
    ]


def text_fields(name: str, content: bytes) -> dict[str, str]:
    """Return the text; and its bytes as `base64` if they are not UTF-8."""
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {name: content.decode(errors="replace"), "base64": base64.b64encode(content).decode()}

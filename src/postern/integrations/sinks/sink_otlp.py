"""OpenTelemetry logs: OTLP over HTTP as JSON (https://opentelemetry.io/docs/specs/otlp/#otlphttp)."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from postern.domain.event import EventKind
from postern.domain.sink import Delivery, Sink
from postern.domain.text import one_line
from postern.integrations.sinks.receivers import Receivers

log = logging.getLogger(__name__)

_INFO, _WARN = (9, "INFO"), (13, "WARN")
_SEVERITY = {EventKind.SESSION_KILL: _WARN, EventKind.GUARDRAIL_VIOLATION: _WARN, EventKind.SCHEDULE_FAILED: _WARN}


class OtlpSender:
    """The sender. `host` is this machine's name."""

    def __init__(self, receivers: Receivers, host: str) -> None:
        self._receivers = receivers
        self._host = host

    async def send(self, sink: Sink, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Send all deliveries in one request."""
        body = json.dumps(request(deliveries, self._host, now)).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "postern"}
        answer = await self._receivers.post(sink, body, headers)
        rejected, why = _read_rejections(answer)
        if rejected:  # the protocol forbids a retry
            log.warning(
                "the collector of sink %s rejected %d of %d events: %s", sink.id, rejected, len(deliveries), why
            )


def request(deliveries: Sequence[Delivery], host: str, now: datetime) -> dict[str, Any]:
    """Return an ExportLogsServiceRequest."""
    resource = {"attributes": _pairs({"service.name": "postern", "host.name": host})}
    records = [_record(delivery, now) for delivery in deliveries]
    return {
        "resourceLogs": [{"resource": resource, "scopeLogs": [{"scope": {"name": "postern"}, "logRecords": records}]}]
    }


def _record(delivery: Delivery, now: datetime) -> dict[str, Any]:
    number, text = _SEVERITY.get(delivery.event, _INFO)
    return {
        "timeUnixNano": _nanoseconds(delivery.at),
        "observedTimeUnixNano": _nanoseconds(now),
        "severityNumber": number,
        "severityText": text,
        "eventName": delivery.event,
        "body": _value(json.loads(delivery.body)["data"]),
        "attributes": _pairs({"event.id": str(delivery.event_id)}),
    }


def _nanoseconds(moment: datetime) -> str:
    return str(int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1_000)


def _value(value: Any) -> dict[str, Any]:
    """Return an AnyValue; 64-bit numbers are texts in OTLP's JSON."""
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if abs(value) < 1 << 63 else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _pairs(value)}}
    return {"stringValue": str(value)}


def _pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _read_rejections(answer: bytes) -> tuple[int, str]:
    try:
        partial = json.loads(answer or b"{}").get("partialSuccess") or {}
        return int(partial.get("rejectedLogRecords") or 0), one_line(str(partial.get("errorMessage", "")))[:200]
    except (ValueError, AttributeError, TypeError, RecursionError):
        return 0, ""

"""Fields of a sink, as the API's requests have them."""

from __future__ import annotations

from typing import Any

from postern.domain.event import EventKind
from postern.domain.sink import SinkKind


def sink_fields(
    name: str | None = None,
    kind: SinkKind | None = None,
    address: str | None = None,
    events: tuple[EventKind, ...] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the fields that are given."""
    fields = {"name": name, "kind": kind, "address": address, "events": events}
    return {key: value for key, value in fields.items() if value is not None} | more

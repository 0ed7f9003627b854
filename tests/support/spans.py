"""A span that only notes what is said of it."""

from __future__ import annotations

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE_ID}-b7ad6b7169203331-01"


class Noted:
    is_recorded = True
    trace_id = TRACE_ID
    traceparent = TRACEPARENT

    def __init__(self) -> None:
        self.said: list[object] = []

    def child(self, name: str, kind: object = None, attributes: object = None) -> Noted:
        self.said.append(name)
        return self

    def set(self, attributes: object) -> None:
        self.said.append(attributes)

    def event(self, name: str) -> None:
        self.said.append(name)

    def fail(self, kind: str) -> None:
        self.said.append(f"failed: {kind}")

    def end(self) -> None:
        self.said.append("ended")

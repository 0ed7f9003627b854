"""The client request that waits for a decision."""

from __future__ import annotations

from postern.interception.pipeline import Pipeline
from postern.interception.verdicts import Hold, Warn
from postern.protocols.wire_base import Request


class HeldRequest:
    """A request that waits for a decision. Evaluation resumes at `operation`, after the interceptor at `place`."""

    __slots__ = ("hold", "operation", "pipeline", "place", "request", "ticket", "warnings")

    def __init__(
        self, hold: Hold, request: Request, operation: int, pipeline: Pipeline, place: int, warnings: list[Warn]
    ) -> None:
        self.hold = hold
        self.ticket = hold.ticket
        self.request = request
        self.operation = operation
        self.pipeline = pipeline
        self.place = place
        self.warnings = warnings  # from the operations before it

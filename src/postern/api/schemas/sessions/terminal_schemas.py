"""Messages of a terminal in a browser that are not frames of a command."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from postern.api.schemas.common import Answer, Body

MAX_SIZE = 10_000  # columns, and rows


class TerminalRequest(Body):
    """The first message of the browser."""

    csrf_token: str = Field(description="`csrf_token` of GET /login/session")
    columns: int = Field(ge=1, le=MAX_SIZE)
    rows: int = Field(ge=1, le=MAX_SIZE)
    name: str = Field(default="xterm-256color", max_length=64, description="The kind of terminal, for `TERM`")
    arguments: list[str] = Field(default=[], description="Appended to the connection's command")
    reason: str = Field(default="", description="Shown to the reviewers if access needs a review")
    duration: int | None = Field(default=None, ge=1, description="Seconds of access, if it needs a review")
    tracker_fields: dict[str, str] = Field(default={}, description="Fields of the issue that the session opens")

    def fields(self) -> dict[str, Any]:
        """Return what a worker reads in the request for the stream."""
        request: dict[str, Any] = {
            "terminal": {"columns": self.columns, "rows": self.rows, "name": self.name},
            "arguments": self.arguments,
        }
        chosen = {"reason": self.reason, "duration": self.duration, "tracker_fields": self.tracker_fields}
        return request | {name: value for name, value in chosen.items() if value}


class TerminalOpened(Answer):
    """The first message of the gateway: frames follow. `window` is the number of bytes of output that it sends before
    it waits for CREDIT frames."""

    status: Literal["opened"] = "opened"
    window: int


class TerminalClosed(Answer):
    """The last message of the gateway: why the terminal ends, in full. `code` is that of the close frame, whose reason
    has room for 123 bytes only."""

    status: Literal["closed"] = "closed"
    code: int
    message: str

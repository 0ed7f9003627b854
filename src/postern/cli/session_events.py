"""Events of a session while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from postern.cli.status import Status, report
from postern.client.client import Client
from postern.domain.text import one_line
from postern.errors import Unavailable

_AGAIN = 2.0  # seconds before an interrupted stream is requested again
_LONGEST = 64 << 20  # characters of one event

SessionEvent = tuple[str, str, dict[str, Any]]  # name, id and data


def follow_session(api: Client, session_id: str) -> Iterator[SessionEvent]:
    """Yield the session's events up to its end. An interrupted stream is requested again from where it stopped."""
    last: str | None = None
    while True:
        try:
            for event in read_events(api, session_id, last):
                name, key, data = event
                last = key or last
                yield event
                if name == "session_end":
                    return
                if name == "cut":
                    report(Status.INFO, one_line(str(data.get("reason"))))
        except Unavailable as error:
            report(Status.INFO, f"{one_line(error.message)}; retrying")
        time.sleep(_AGAIN)


def read_events(api: Client, session_id: str, last: str | None) -> Iterator[SessionEvent]:
    """Yield the events of one stream, after the event `last` (WHATWG HTML, 9.2.6)."""
    key = name = ""
    with api.sessions.stream(session_id, last) as lines:
        for line in lines:
            field, _, value = line.partition(": ")
            if field == "id":
                key = value
            elif field == "event":
                name = value
            elif field == "data" and len(value) < _LONGEST:
                yield name, key, json.loads(value)
                key = name = ""

"""Output of a script that is printed while it runs: as text, or as lines of JSON.

What cannot be printed then, because the stream broke, is printed at the end: `TextOutput.rest` and `LineOutput.finish`
know what is missing.
"""

from __future__ import annotations

import base64
import codecs
import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

from postern.cli.session_events import read_events
from postern.cli.status import Status, report
from postern.client.client import Client
from postern.domain.text import json_text, printable
from postern.errors import PosternError, Unavailable

_ATTEMPTS = 5
_PAUSE = 0.5  # seconds after a stream that broke
STREAMS = {"o": "stdout", "e": "stderr"}  # by the kind of a recorded event
OutputPart = tuple[str, str]  # a stream's name and a text


class PartPrinter:
    """Prints output and errors on their own streams, in order. Files and programs get the output unchanged; a terminal
    gets it without control characters."""

    def __init__(self) -> None:
        self._render: Callable[[str], str] = printable if sys.stdout.isatty() else str
        self._last = ""  # text that went to standard error; a program can write a line in parts

    def print(self, stream: str, text: str) -> None:
        if stream == "gateway":
            report(Status.ERROR, printable(text))
        elif stream == "stderr":
            click.echo(printable(text), nl=False, err=True)
            self._last = text or self._last
        else:
            click.echo(self._render(text), nl=False)

    def finish(self) -> None:
        """End the last line of standard error."""
        if self._last and not self._last.endswith("\n"):
            click.echo(err=True)


class LiveOutput(ABC):
    """Output that is printed while the script runs. `begin` is called before the first of it."""

    def __init__(self) -> None:
        self.begin: Callable[[], None] = lambda: None
        self._is_over = False

    def follow(self, api: Client, session_id: str) -> None:
        """Print what is new until the script ends. A stream that breaks is continued, some times; call again later."""
        for _ in range(_ATTEMPTS):
            if self._is_over:
                return
            try:
                self._follow(api, session_id)
            except Unavailable:
                time.sleep(_PAUSE)
            except PosternError:
                return  # the caller asks for the session's state, and reports an error that stays

    @abstractmethod
    def _follow(self, api: Client, session_id: str) -> None:
        """Print one stream."""


class TextOutput(LiveOutput):
    """The text that the recording has of the script."""

    def __init__(self, printer: PartPrinter) -> None:
        super().__init__()
        self._printer = printer
        self._last: str | None = None
        self._decoders = {kind: codecs.getincrementaldecoder("utf-8")("replace") for kind in STREAMS}
        self._printed = dict.fromkeys(STREAMS.values(), 0)

    def _follow(self, api: Client, session_id: str) -> None:
        for name, key, data in read_events(api, session_id, self._last):
            if name == "event":
                self._print(data["type"], base64.b64decode(data["payload"]))
            self._last = key or self._last
            self._is_over = name == "session_end"
            if self._is_over or name == "cut":
                return

    def _print(self, kind: str, content: bytes) -> None:
        if kind not in STREAMS:
            return
        text = self._decoders[kind].decode(content)
        if text:
            self.begin()
            self._printed[STREAMS[kind]] += len(text)
            self._printer.print(STREAMS[kind], text)
            sys.stdout.flush()

    def rest(self, parts: Iterable[OutputPart]) -> Iterator[OutputPart]:
        """Yield the parts of the whole output without what is printed already."""
        left = dict(self._printed)
        for stream, text in parts:
            skipped = min(left.get(stream, 0), len(text))
            if skipped:
                left[stream] -= skipped
            if skipped < len(text):
                yield stream, text[skipped:]


class LineOutput(LiveOutput):
    """The lines of the API's stream of results, each once. Lines that only keep the connection alive are left out."""

    def __init__(self) -> None:
        super().__init__()
        self._next_row = 0
        self._known = 0  # lines without rows, which come again with each stream
        self._render: Callable[[str], str] = json_text if sys.stdout.isatty() else str

    def _follow(self, api: Client, session_id: str) -> None:
        self._read(api, session_id, follows=True)

    def finish(self, api: Client, session_id: str) -> None:
        """Print the lines of a script that has ended, without those that are printed already."""
        if not self._is_over:
            self._read(api, session_id, follows=False)

    def _read(self, api: Client, session_id: str, *, follows: bool) -> None:
        number = 0
        with api.sessions.result_lines(session_id, self._next_row, follows=follows) as lines:
            for line in lines:
                value: dict[str, Any] = json.loads(line)
                kind = value["type"]
                if kind == "cut":
                    return
                if kind == "rows":
                    self._next_row = value["next_row"]
                elif kind != "waiting":
                    number += 1
                if kind == "rows" or (kind != "waiting" and number > self._known):
                    self._print(line)
                self._known = max(self._known, number)
                self._is_over = self._is_over or kind == "end"

    def _print(self, line: str) -> None:
        self.begin()
        click.echo(self._render(line))
        sys.stdout.flush()

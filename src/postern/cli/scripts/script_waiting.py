"""Waiting for a script that the gateway runs: with progress, and Ctrl-C kills it there. One that
needs a review runs by itself when it is approved."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from postern.cli.progress import ProgressLine
from postern.cli.scripts import reviewed
from postern.cli.scripts.reviewed import Patience
from postern.cli.status import Status, report, status_line
from postern.client.client import Client
from postern.client.client_shapes import ExecResult
from postern.domain.text import printable
from postern.errors import PosternError, Unavailable

AT_FIRST = 1  # seconds for the end, before the gateway is asked to say which session it is
INTERRUPTED = 130  # the exit code: 128 + SIGINT
_AWAY = 30.0  # seconds that the gateway may be away before it is given up
_PAUSE = 1.0


def wait(
    api: Client, begin: Callable[[int], ExecResult], progress: ProgressLine, patience: Patience | None = None
) -> ExecResult:
    """The answer, once the script has ended, or while it waits for a review for longer than `patience` has. `begin`
    puts it up, and waits so many seconds at most. Ctrl-C kills the session and ends this program; one that waits for
    its review is left to."""
    try:
        with _held() as is_wanted:
            result = begin(AT_FIRST)
    except KeyboardInterrupt:
        progress.end()
        report(Status.INFO, "the script may go on; `postern sessions list --verb exec --status open` shows it")
        sys.exit(INTERRUPTED)
    if result["output_status"] == reviewed.WAITING:
        result = _reviewed(api, result, progress, patience or Patience(), is_wanted())
        if result["output_status"] != "running":
            return result
        with ProgressLine("running; Ctrl-C kills it", quiet=patience is not None and patience.quiet) as again:
            return _followed(api, result, again, is_wanted=False)
    progress.say(
        "running; Ctrl-C kills it",
        note=status_line(
            Status.INFO,
            f"session {result['session_id']}; elsewhere `postern sessions show {result['session_id']}` shows it so far",
            is_terminal=True,
        ),
    )
    return _followed(api, result, progress, is_wanted=is_wanted())


def _followed(api: Client, result: ExecResult, progress: ProgressLine, *, is_wanted: bool) -> ExecResult:
    """To its end. `is_wanted`: somebody has pressed Ctrl-C already."""
    session_id = result["session_id"]
    try:
        if is_wanted:
            raise KeyboardInterrupt
        while result["output_status"] == "running":
            result = _asked(api, session_id)
    except KeyboardInterrupt:
        progress.end()
        _kill(api, session_id)
        sys.exit(INTERRUPTED)
    return result


def _reviewed(
    api: Client, result: ExecResult, progress: ProgressLine, patience: Patience, is_wanted: bool
) -> ExecResult:
    session_id = result["session_id"]
    try:
        if is_wanted:
            raise KeyboardInterrupt
        return reviewed.run_when_approved(api, result, progress, patience, AT_FIRST)
    except KeyboardInterrupt:
        progress.end()
        reviewed.say(
            f"session {session_id} is left as it is: `postern exec --resume {session_id}` goes on once it is approved, "
            f"`postern reviews withdraw {session_id}` gives it up"
        )
        sys.exit(INTERRUPTED)


def _asked(api: Client, session_id: str) -> ExecResult:
    """A gateway that restarts ends the session, or leaves it to others: it is worth asking for a while."""
    end = time.monotonic() + _AWAY
    while True:
        began = time.monotonic()
        try:
            return api.sessions.execution(session_id)
        except Unavailable as error:
            if began > end:
                raise Unavailable(
                    f"{error.message}; what became of session {session_id} is shown by "
                    f"`postern sessions show {session_id}`"
                ) from None
        time.sleep(_PAUSE)


def _kill(api: Client, session_id: str) -> None:
    try:
        api.sessions.kill(session_id)
    except PosternError as error:
        report(Status.ERROR, f"session {session_id} could not be killed and may still run: {printable(error.message)}")
    else:
        shown = f"`postern sessions show {session_id} --output` shows what it printed"
        report(Status.INFO, f"killed session {session_id}; {shown}")


@contextmanager
def _held() -> Iterator[Callable[[], bool]]:
    """One Ctrl-C is remembered, since which session it is about is not known yet; the answer says whether there was
    one. A second one ends this program."""
    wanted = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal wanted
        if wanted:
            raise KeyboardInterrupt
        wanted = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: wanted
    finally:
        signal.signal(signal.SIGINT, before)

"""The six answers to an event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class Verdict:
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Forward(Verdict):
    """Pass it on as it came, byte for byte."""


@dataclass(frozen=True, slots=True)
class Replace(Verdict):
    """Pass on what the event holds now: the interceptor changed it through the event's own methods."""


@dataclass(frozen=True, slots=True)
class Refuse(Verdict):
    """Do not pass it. `message` is for the person at the client; `hint` says how to go on."""

    rule: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """A judgement that would take too long on the event loop now.

    `task` runs in another process: it and its answer can be pickled. `conclude` turns the answer into a verdict, on the
    event loop. Without a task it does all of it: that is short, and only waits until others have had their turn.
    """

    task: Callable[[], object] | None
    conclude: Callable[[object], Verdict]

    def __call__(self) -> Verdict:
        """Do all of it here."""
        task = self.task
        conclude = self.conclude
        return conclude(None if task is None else task())


def later(work: Work) -> Work:
    """The same on the event loop, once others have had their turn."""
    return Work(None, lambda _: work())


@dataclass(frozen=True, slots=True)
class Hold(Verdict):
    """Park the link until `Link.resume(ticket, verdict)`; `question` says what is waited for, and `rule` which rule
    wants to know it. With `work` no person is asked: the work gives the verdict."""

    ticket: str
    question: str
    rule: str = ""
    work: Work | None = None


@dataclass(frozen=True, slots=True)
class Warn(Verdict):
    """Pass it on as the event is now, and tell the client: a NOTICE, or what its protocol has in that place.

    `is_violation`: a rule was broken; otherwise it only explains what was done to an answer.
    """

    rule: str
    message: str
    hint: str = ""
    is_violation: bool = True


FORWARD = Forward()
REPLACE = Replace()

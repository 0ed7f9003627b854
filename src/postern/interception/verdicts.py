"""Verdicts: the possible answers of an interceptor to an event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


class Verdict:
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Forward(Verdict):
    """Pass the event on unchanged, byte for byte."""


@dataclass(frozen=True, slots=True)
class Replace(Verdict):
    """Pass on the current content of the event, which the interceptor changed through the event's methods."""


@dataclass(frozen=True, slots=True)
class Refuse(Verdict):
    """Deny the event. `message` is shown to the client's user; `hint` says what to do next."""

    rule: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """Judgement that takes too long for the event loop.

    `task` runs in another process, so it and its result must be picklable. `conclude` turns that result into a verdict,
    on the event loop. Without a task, `conclude` does all of the work: this is short, and only yields to others first.
    """

    task: Callable[[], object] | None
    conclude: Callable[[object], Verdict]

    def __call__(self) -> Verdict:
        """Do all of the work here, and return the verdict."""
        task = self.task
        conclude = self.conclude
        return conclude(None if task is None else task())


def later(work: Work) -> Work:
    """Return the same work for the event loop, after others have had their turn."""
    return Work(None, lambda _: work())


@dataclass(frozen=True, slots=True)
class Hold(Verdict):
    """Hold the link until `Link.resume(ticket, verdict)`.

    `question` describes what is pending and `rule` names the rule that requires it. With `work`, no reviewer is asked:
    the work returns the verdict.
    """

    ticket: str
    question: str
    rule: str = ""
    work: Work | None = None


@dataclass(frozen=True, slots=True)
class Warn(Verdict):
    """Pass the event on as it is now, and warn the client by a NOTICE or its protocol's equivalent.

    `is_violation`: a rule was violated. Otherwise the warning only explains a change to an answer.
    """

    rule: str
    message: str
    hint: str = ""
    is_violation: bool = True


FORWARD = Forward()
REPLACE = Replace()

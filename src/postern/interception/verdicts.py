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
class Hold(Verdict):
    """Park the link until `Link.resume(ticket, verdict)`; `question` says what is waited for, and `rule` which rule
    wants to know it.

    With `work` nobody is asked: it is what would take too long here, is called in a thread, and answers the verdict.
    """

    ticket: str
    question: str
    rule: str = ""
    work: Callable[[], Verdict] | None = None


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

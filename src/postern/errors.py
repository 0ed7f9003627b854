"""The error tree: one class for each reaction that a caller can have.

A message says what happened, why, and what to do next; it is shown to people as it is, so it never
carries a secret. `field` names the part of the caller's input that is wrong, where there is one;
`retry_after` is after how many seconds the same call may go through, where that is known.
Every outer surface (HTTP API, CLI, each wire protocol) renders these classes in its own tongue.
"""

from __future__ import annotations

from collections.abc import Mapping


class PosternError(Exception):
    """Root of all errors that Postern raises on purpose."""

    def __init__(self, message: str, *, field: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after = retry_after


class Malformed(PosternError):
    """The input cannot be read at all: wrong type, missing field, unknown enum value."""


class Unreachable(Malformed):
    """The target of a connection, or the agent that reaches it, does not answer.

    The API has always answered 400 for it; the header `Postern-Error: unreachable` tells it apart.
    """


class Invalid(PosternError):
    """The input reads well but breaks a rule: constraint, unknown reference, immutability."""


class Unauthenticated(PosternError):
    """Nobody is known behind the request."""


class Denied(PosternError):
    """Somebody is known, and may not."""


class NotFound(PosternError):
    """The named thing does not exist, or is hidden from the caller."""


class Gone(PosternError):
    """The thing was there, and was purged on purpose."""


class Conflict(PosternError):
    """The thing exists already, or is in a state that does not allow the request."""


class PreconditionFailed(PosternError):
    """The thing is not in the version that the request names."""


class TooMany(PosternError):
    """The caller goes over a limit; the same call may go through later."""


class Unavailable(PosternError):
    """A part that is needed does not answer: target, agent, store."""


class ProtocolViolation(PosternError):
    """A peer sent bytes that its protocol does not allow. The stream cannot be trusted any more."""


class CarrierBroke(ConnectionResetError):
    """What carries a stream, a tunnel or an SSH connection, was given up: its peer broke the carrier's protocol."""


class RecordingFailed(PosternError):
    """A record could not be appended. The session it belongs to ends."""


class Misconfigured(PosternError):
    """A setting is wrong. Raised at start only, so that nothing runs half set up."""


# The one table between the tree and HTTP: the API answers by it, the client raises by it. What is not here is 500.
STATUSES: Mapping[type[PosternError], int] = {
    Malformed: 400,
    Unauthenticated: 401,
    Denied: 403,
    NotFound: 404,
    Conflict: 409,
    Gone: 410,
    PreconditionFailed: 412,
    Invalid: 422,
    TooMany: 429,
    Unavailable: 503,
}
_BODY_TOO_LARGE = 413
# A header of error answers, for what programs have to tell apart although the status is the same.
ERROR_HEADER, UNREACHABLE = "Postern-Error", "unreachable"


def status_of(error: PosternError) -> int:
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)


def error_of(status: int) -> type[PosternError]:
    """The class that stands for this answer; Unavailable for one that nobody answers on purpose."""
    if status == _BODY_TOO_LARGE:
        return Malformed
    return next((kind for kind, known in STATUSES.items() if known == status), Unavailable)

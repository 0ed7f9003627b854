"""The error tree: one class for each reaction of a caller.

A message says what happened, why, and what to do next; people see it unchanged, so it never contains a secret. `field`
names the invalid part of the caller's input, if there is one; `retry_after` is the number of seconds after which the
same call can succeed, if that is known. Every outer surface (HTTP API, CLI, each wire protocol) renders these classes
in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping


class PosternError(Exception):
    """Root of all expected errors of Postern."""

    def __init__(self, message: str, *, field: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after = retry_after


class Malformed(PosternError):
    """The input cannot be read: wrong type, missing field, unknown enum value."""


class Unreachable(Malformed):
    """The target of a connection, or the agent that reaches it, does not answer.

    The API answers it with 400, as in earlier versions; the header `Postern-Error: unreachable` distinguishes it.
    """


class Invalid(PosternError):
    """The input is well formed but breaks a rule: constraint, unknown reference, immutability."""


class Unauthenticated(PosternError):
    """The request is not authenticated."""


class Denied(PosternError):
    """The caller is authenticated, but not allowed to do this."""


class StepUpRequired(Denied):
    """The caller must first prove again who they are, with POST /api/login/step-up.

    The header `Postern-Error: step-up-required` distinguishes it from other denials.
    """


class NotFound(PosternError):
    """The named thing does not exist, or is hidden from the caller."""


class Gone(PosternError):
    """The thing existed, and was purged on purpose."""


class Conflict(PosternError):
    """The thing exists already, or its state does not allow the request."""


class PreconditionFailed(PosternError):
    """The thing does not have the version that the request names."""


class TooMany(PosternError):
    """The caller exceeds a limit; the same call can succeed later."""


class Unavailable(PosternError):
    """A required part does not answer: target, agent, store."""


class ProtocolViolation(PosternError):
    """A peer sent bytes that its protocol does not allow. The stream cannot be trusted any more."""


class CarrierBroke(ConnectionResetError):
    """The tunnel or SSH connection of a stream was closed, because its peer broke the protocol."""


class RecordingFailed(PosternError):
    """A record could not be appended. Its session ends."""


class BackupFailed(PosternError):
    """A backup could not be written or read, such as on a full disk."""


class Misconfigured(PosternError):
    """A setting is wrong. Raised at start only, so that nothing runs with half of its settings."""


# The one table between the tree and HTTP: the API answers with it, the client raises with it. Other errors are 500.
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
# A header of error answers, so that programs can distinguish errors with the same status.
ERROR_HEADER, UNREACHABLE, STEP_UP_REQUIRED = "Postern-Error", "unreachable", "step-up-required"


def status_of(error: PosternError) -> int:
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 500)


def error_of(status: int) -> type[PosternError]:
    """Return the class for this answer; Unavailable for an unexpected status."""
    if status == _BODY_TOO_LARGE:
        return Malformed
    return next((kind for kind, code in STATUSES.items() if code == status), Unavailable)

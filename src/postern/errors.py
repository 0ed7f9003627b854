"""The error tree: one class for each reaction that a caller can have.

A message says what happened, why, and what to do next; it is shown to people as it is, so it never
carries a secret. `field` names the part of the caller's input that is wrong, where there is one.
Every outer surface (HTTP API, CLI, each wire protocol) renders these classes in its own tongue.
"""

from __future__ import annotations


class PosternError(Exception):
    """Root of all errors that Postern raises on purpose."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class Malformed(PosternError):
    """The input cannot be read at all: wrong type, missing field, unknown enum value. HTTP 400."""


class Invalid(PosternError):
    """The input reads well but breaks a rule: constraint, unknown reference, immutability. HTTP 422."""


class Unauthenticated(PosternError):
    """Nobody is known behind the request. HTTP 401."""


class Denied(PosternError):
    """Somebody is known, and may not. HTTP 403."""


class NotFound(PosternError):
    """The named thing does not exist, or is hidden from the caller. HTTP 404."""


class Conflict(PosternError):
    """The thing exists already, or is in a state that does not allow the request. HTTP 409."""


class TooMany(PosternError):
    """The caller goes over a limit; the same call may go through later. HTTP 429."""


class Unavailable(PosternError):
    """A part that is needed does not answer: target, agent, store. HTTP 503."""


class ProtocolViolation(PosternError):
    """A peer sent bytes that its protocol does not allow. The stream cannot be trusted any more."""


class RecordingFailed(PosternError):
    """A record could not be appended. The session it belongs to ends."""


class Misconfigured(PosternError):
    """A setting is wrong. Raised at start only, so that nothing runs half set up."""

"""The claims of an identity provider about a user, after verification."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """`issuer` and `subject` identify a user permanently; all else may change between logins.

    `groups` is None when the provider sends no groups, which differs from an empty set.
    """

    issuer: str
    subject: str
    email: str
    email_verified: bool
    name: str
    picture: str = ""
    groups: frozenset[str] | None = None

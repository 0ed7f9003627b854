"""What an identity provider says of somebody, after its proof was checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """`issuer` and `subject` name somebody for ever; all else may change between logins.

    `groups` is None when the provider says nothing of groups, which is not the same as none.
    """

    issuer: str
    subject: str
    email: str
    email_verified: bool
    name: str
    picture: str = ""
    groups: frozenset[str] | None = None

"""From a provider's claims to what Postern knows of somebody."""

from __future__ import annotations

from typing import Any

from postern.domain.identity.identity import Identity
from postern.errors import Unauthenticated

_MOST_GROUPS = 5_000
_ABSENT = object()


def missing(claims: dict[str, Any], groups_claim: str) -> bool:
    """Whether something is missing that the userinfo endpoint may have."""
    return "email" not in claims or "name" not in claims or _found(claims, groups_claim) is _ABSENT


def identity_of(issuer: str, subject: str, claims: dict[str, Any], groups_claim: str) -> Identity:
    """Raises Unauthenticated when the groups cannot be read: to go on with those of before could leave somebody
    rights that the provider took away."""
    return Identity(
        issuer=issuer,
        subject=subject,
        email=_text(claims.get("email")),
        # Some providers write the truth value as a text.
        email_verified=claims.get("email_verified") is True or claims.get("email_verified") == "true",
        name=_text(claims.get("name")) or _text(claims.get("preferred_username")),
        picture=_text(claims.get("picture"))[:2048],
        groups=_groups(claims, groups_claim),
    )


def _groups(claims: dict[str, Any], name: str) -> frozenset[str] | None:
    given = _found(claims, name)
    if given is _ABSENT:
        elsewhere = claims.get("_claim_names")  # distributed claims, Core 5.6.2: they are not fetched
        if isinstance(elsewhere, dict) and name in elsewhere:
            raise Unauthenticated(
                "the identity provider has too many groups for its token; let it send only those that matter here"
            )
        return None
    if given is None:
        return frozenset()
    groups = [given] if isinstance(given, str) else given
    if not isinstance(groups, list) or len(groups) > _MOST_GROUPS or not all(isinstance(one, str) for one in groups):
        raise Unauthenticated(f"the identity provider's claim {name!r} is neither a text nor a list of texts")
    return frozenset(one for one in groups if one)


def _found(claims: dict[str, Any], name: str) -> Any:
    """By its whole name, which may be a URL with dots in it; else step by step along the dots."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        if not isinstance(found, dict) or part not in found:
            return _ABSENT
        found = found[part]
    return found


def _text(given: object) -> str:
    """Empty for what is no text, or none that can be stored."""
    if not isinstance(given, str) or any(one == "\0" or "\ud800" <= one <= "\udfff" for one in given):
        return ""
    return given

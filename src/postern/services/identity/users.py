"""Checks of the names of principals, and of what they are allowed to do."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from postern.domain.identity.names import fold_name
from postern.domain.identity.principal import Principal, PrincipalKind, PrincipalStatus, Role
from postern.errors import Denied, Invalid

_EMAIL = re.compile(r"[^@\s\x00-\x1f]+@[^@\s\x00-\x1f]+")
_ROLES = {Role.ADMIN: "administrator", Role.AUDITOR: "auditor"}
_GROUP = re.compile(r"[^\x00-\x1f\x7f]{1,128}")


def checked_email(email: str) -> str:
    """Return the address as it is compared. Raises Invalid, also for one with look-alike characters."""
    folded = fold_name(email)
    if email and not folded:
        raise Invalid(
            f"email: {email!r} has characters that look like others (full-width, ligatures, invisible); write it with "
            "plain ones",
            field="email",
        )
    if len(folded) > 320 or not _EMAIL.fullmatch(folded):
        raise Invalid(f"email: {email!r} is not an e-mail address", field="email")
    return folded


def checked_name(name: str) -> str:
    """Return the name. Raises Invalid."""
    if not 1 <= len(name) <= 255 or any(ord(character) < 32 for character in name):
        raise Invalid("name: must have 1 to 255 characters and no control characters", field="name")
    return name


def checked_groups(names: Iterable[str], field: str = "groups") -> frozenset[str]:
    """Return the names in Unicode's form C, so that each has one spelling; compared exactly from then on. Raises
    Invalid."""
    composed = frozenset(unicodedata.normalize("NFC", name) for name in names)
    for name in composed:
        if not _GROUP.fullmatch(name) or name != name.strip():
            raise Invalid(
                f"{field}: {name!r} must have 1 to 128 characters, no control characters, and no blanks around it",
                field=field,
            )
    return composed


def require_admin(principal: Principal, deed: str) -> None:
    """Raise Denied for all but administrators."""
    if not principal.is_admin:
        raise Denied(f"only administrators can {deed}")


def require_reader(principal: Principal, what: str) -> None:
    """Raise Denied for all but administrators and auditors."""
    if not principal.sees_all:
        raise Denied(f"only administrators and auditors can see {what}")


def require_person(principal: Principal, deed: str) -> None:
    """Raise Denied for programs, so that they cannot create new access for themselves or each other."""
    if principal.kind is not PrincipalKind.USER:
        raise Denied(f"an API key cannot {deed}; log in as an administrator")


def require_person_for_role(actor: Principal, before: Principal | None, after: Principal) -> None:
    """Let only users make an account an administrator or auditor, or reactivate one. Raises Denied.

    `before` is None where `after` is new. Otherwise the effect of a leaked key would outlive its revocation: in an
    account with the role, and with the login that the account has.
    """
    was = Role.STANDARD if before is None else before.role
    gained = after.role is not Role.STANDARD and was is not after.role
    shut_out = PrincipalStatus.INACTIVE
    # An invited account becomes active with its first login. Losing the role in the same request does not help.
    revived = before is not None and before.status is shut_out and after.status is not shut_out
    if gained:
        require_person(actor, f"make an {_ROLES[after.role]}")
    if revived and (role := after.role if after.role is not Role.STANDARD else was) is not Role.STANDARD:
        require_person(actor, f"activate an {_ROLES[role]}")


def require_person_for_role_name(actor: Principal, name: str) -> None:
    """Let only users give a group, with all its members, the name that gives a role. Raises Denied."""
    if name in (actor.role_groups.admin, actor.role_groups.auditor):
        require_person(actor, f"name a group {name!r}, which gives a role")

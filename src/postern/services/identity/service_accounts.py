"""Service accounts: programs that act for themselves, by API keys that belong to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from postern.domain.identity.principal import Account, Principal, PrincipalKind, PrincipalStatus
from postern.domain.resource_names import as_identifier
from postern.errors import Invalid
from postern.services.identity.user_accounts import AccountService
from postern.services.identity.users import checked_groups

_SUBJECT = re.compile(r"[\x21-\x2e\x30-\x7e]{1,255}")  # no "/": it is a part of a path


class ServiceAccounts(AccountService):
    noun = "service account"

    def blank(self, key: UUID, org_id: UUID) -> Account:
        return Account(Principal(key, org_id, subject="", email="", name="", kind=PrincipalKind.SERVICE_ACCOUNT))

    async def resolve(self, current: Account, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        before = current.principal
        subject = before.subject or _checked_subject(fields.get("subject", ""))
        status = fields.get("status", before.status)
        if status is PrincipalStatus.INVITED:
            raise Invalid("status: must be active or inactive", field="status")
        name = fields.get("name") or before.name or subject
        groups = checked_groups(fields["groups"]) if "groups" in fields else before.groups
        return {"principal": replace(before, subject=subject, email=subject, name=name, status=status, groups=groups)}


def _checked_subject(subject: str) -> str:
    if not _SUBJECT.fullmatch(subject):
        raise Invalid("subject: must have 1 to 255 printable ASCII characters, no blank and no slash", field="subject")
    if subject in (".", "..") or as_identifier(subject) is not None:
        raise Invalid("subject: must not look like an identifier or a path; choose another", field="subject")
    return subject

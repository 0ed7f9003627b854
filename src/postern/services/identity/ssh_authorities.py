"""The authorities that sign SSH certificates of an organisation's users, and whom a certificate identifies.

`holder_of` returns the holder of a certificate. The caller has checked the authority's signature on it, and admits the
client only after it has signed with the certified key.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from postern.domain.identity.principal import Account, Principal, PrincipalKind
from postern.domain.identity.ssh_certificate import SshAuthority, SshCertificate, fault
from postern.domain.identity.ssh_key import PublicKey, public_key
from postern.domain.rules.permit import Permit
from postern.domain.text import one_line
from postern.errors import Invalid, Unauthenticated
from postern.services.identity.ssh_keys import is_called
from postern.services.identity.users import require_admin, require_person
from postern.services.named_resources import ResourceService
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.ssh_ports import SshAuthorityStore

log = logging.getLogger(__name__)

MEANS = "ssh-authority"
NO_KEY = PublicKey("", "", "")


@dataclass(frozen=True, slots=True)
class CertificateHolder:
    """The holder of a certificate. A Permit takes over `means`, the auth method, and `until`, its expiry."""

    certificate: SshCertificate
    authority: SshAuthority
    principal: Principal
    address: str

    @property
    def means(self) -> str:
        return f"{MEANS}:{self.authority.id}"

    @property
    def until(self) -> datetime | None:
        return self.certificate.ends_at


class SshAuthorities(ResourceService[SshAuthority]):
    """The trusted authorities. Removing one ends the sessions under its certificates."""

    noun = "SSH authority"
    preserved_fields = frozenset({"key"})

    def __init__(self, store: SshAuthorityStore, principals: PrincipalStore, signals: Signals, now: Clock) -> None:
        super().__init__(store, signals, now)
        self._authorities = store
        self._principals = principals

    def blank(self, key: UUID, org_id: UUID) -> SshAuthority:
        return SshAuthority(key, org_id, "", NO_KEY, self._now())

    async def resolve(self, current: SshAuthority, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Resolve `public_key`, OpenSSH's line of the authority's key."""
        if "public_key" not in fields:
            return fields
        key = public_key(fields["public_key"])
        if current.key not in (NO_KEY, key):
            raise Invalid("public_key: cannot be changed; add another authority instead", field="public_key")
        return {name: value for name, value in fields.items() if name != "public_key"} | {"key": key}

    async def check(self, resource: SshAuthority) -> None:
        if resource.key == NO_KEY:
            raise Invalid("public_key: is required", field="public_key")

    def require_admin(self, principal: Principal) -> None:
        self.require_remover(principal)
        require_person(principal, "change the authorities of SSH certificates")

    def require_remover(self, principal: Principal) -> None:
        """Allow API keys of administrators to delete authorities, too, which only reduces access."""
        require_admin(principal, "change the authorities of SSH certificates")

    def audit_view(self, resource: SshAuthority) -> object:
        """Return the audited fields. Any field called "key" would be redacted as a secret."""
        key = resource.key
        fields = {"id": resource.id, "name": resource.name}
        return {**fields, "algorithm": key.algorithm, "fingerprint": key.fingerprint}

    async def holder_of(self, user: str, certificate: SshCertificate, *, address: str) -> CertificateHolder:
        """Return the current holder of a certificate, for a client at `address` that claims to be `user`.

        `user` is a subject, an e-mail address, or its part before the @. The authority determines the organisation.
        Raises Unauthenticated; the log says why.
        """
        authority = await self._authorities.by_fingerprint(certificate.authority.fingerprint)
        if authority is None:
            raise self._log_rejection(user, certificate, "its authority is not trusted in this organisation")
        account = await self._find_account(user, certificate, authority)
        principal = account.principal
        problem = fault(certificate, authority.key, _names(account), address, self._now())
        if problem is None and not principal.is_active:
            problem = "this account is not active"
        if problem is not None:
            raise self._log_rejection(user, certificate, problem)
        return CertificateHolder(certificate, authority, principal, address)

    async def standing(self, holder: CertificateHolder) -> CertificateHolder:
        """Return the holder's current state, for one that logged in earlier. Raises Unauthenticated."""
        principal = holder.principal
        if await self._store.get(principal.org_id, str(holder.authority.id)) is None:
            raise Unauthenticated("the authority of this certificate is no longer trusted; get a new certificate")
        account = await self._principals.get(principal.org_id, principal.id)
        if account is None or not account.principal.is_active:
            raise Unauthenticated("this account is not active; ask an administrator")
        names, key = _names(account), holder.authority.key
        problem = fault(holder.certificate, key, names, holder.address, self._now())
        if problem is not None:
            raise Unauthenticated(f"this certificate is no longer valid: {problem}; get a new one")
        return replace(holder, principal=account.principal)

    async def find_end_reason(self, permit: Permit) -> str | None:
        """Return why sessions under its certificates must end; None otherwise. Expiry of a certificate is in its
        permit."""
        key = permit.means.partition(":")[2]
        if await self._store.get(permit.principal.org_id, key) is None:
            return "the authority of this login's SSH certificate is no longer trusted"
        return None

    async def _find_account(self, user: str, certificate: SshCertificate, authority: SshAuthority) -> Account:
        """Return the one user that the certificate names and `user` means. Raises Unauthenticated."""
        accounts: dict[UUID, Account] = {}
        for name in certificate.principals:
            by_email = await self._principals.by_email(authority.org_id, name)
            by_either = await self._principals.by_subject_or_email(authority.org_id, PrincipalKind.USER, name)
            for account in (by_email, by_either):
                if account is not None and name in _names(account) and is_called(account, user):
                    accounts[account.principal.id] = account
        if len(accounts) != 1:
            several = "it matches several users; use your full e-mail address"
            none = "none of its principals is the e-mail address or the subject of the user that the client names"
            problem = several if accounts else none
            raise self._log_rejection(user, certificate, problem)
        return next(iter(accounts.values()))

    def _log_rejection(self, user: str, certificate: SshCertificate, problem: str) -> Unauthenticated:
        log.info(
            "SSH certificate denied: id=%s serial=%d key=%s authority=%s user=%s reason=%s",
            one_line(certificate.key_id[:100]),
            certificate.serial,
            certificate.key.fingerprint,
            certificate.authority.fingerprint,
            one_line(user[:100]),
            problem,
        )
        return Unauthenticated(f"this certificate was denied: {problem}")


def _names(account: Account) -> tuple[str, str]:
    """Return the principals that a certificate can name this account by, compared exactly."""
    return account.principal.email, account.principal.subject

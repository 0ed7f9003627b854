"""Who signs the SSH certificates of an organisation's users, and whom a certificate lets in.

`holder_of` returns whose certificate it is. The caller has checked the authority's signature on it, and lets nobody in
before the client has signed with the certified key.
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
    """Who is let in by it. `means` and `until` are what a Permit says of what they are logged in with."""

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
    """What runs by the certificates of an authority ends with it."""

    noun = "SSH authority"
    kept = frozenset({"key"})

    def __init__(self, store: SshAuthorityStore, principals: PrincipalStore, signals: Signals, now: Clock) -> None:
        super().__init__(store, signals, now)
        self._authorities = store
        self._principals = principals

    def blank(self, key: UUID, org_id: UUID) -> SshAuthority:
        return SshAuthority(key, org_id, "", NO_KEY, self._now())

    async def resolve(self, current: SshAuthority, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """`public_key` is OpenSSH's line of the authority's key."""
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
        require_person(principal, "choose who signs SSH certificates")

    def require_remover(self, principal: Principal) -> None:
        """Keys of administrators may delete authorities, too: that lets fewer in."""
        require_admin(principal, "choose who signs SSH certificates")

    def audit_view(self, resource: SshAuthority) -> object:
        """Whatever is called a key would be replaced as a secret."""
        key = resource.key
        shown = {"id": resource.id, "name": resource.name}
        return {**shown, "algorithm": key.algorithm, "fingerprint": key.fingerprint}

    async def holder_of(self, user: str, certificate: SshCertificate, *, address: str) -> CertificateHolder:
        """Whose it is, as they are now, for who comes from `address` and says to be `user`: a subject, an e-mail
        address, or its part before the @. The authority says of which organisation.

        Raises Unauthenticated; why is in the log.
        """
        authority = await self._authorities.by_fingerprint(certificate.authority.fingerprint)
        if authority is None:
            raise self._log_rejection(user, certificate, "nobody knows who signed it")
        account = await self._find_account(user, certificate, authority)
        principal = account.principal
        problem = fault(certificate, authority.key, _names(account), address, self._now())
        if problem is None and not principal.is_active:
            problem = "this account is not active"
        if problem is not None:
            raise self._log_rejection(user, certificate, problem)
        return CertificateHolder(certificate, authority, principal, address)

    async def standing(self, holder: CertificateHolder) -> CertificateHolder:
        """As it is now, for one who logged in a while ago. Raises Unauthenticated."""
        principal = holder.principal
        if await self._store.get(principal.org_id, str(holder.authority.id)) is None:
            raise Unauthenticated("who signed this certificate is not trusted any more; get another one")
        account = await self._principals.get(principal.org_id, principal.id)
        if account is None or not account.principal.is_active:
            raise Unauthenticated("this account is not active; ask an administrator")
        names, key = _names(account), holder.authority.key
        problem = fault(holder.certificate, key, names, holder.address, self._now())
        if problem is not None:
            raise Unauthenticated(f"this certificate does not hold any more: {problem}; get another one")
        return replace(holder, principal=account.principal)

    async def find_end_reason(self, permit: Permit) -> str | None:
        """Why what runs by its certificates may not go on, where it may not. When one ends its permit says itself."""
        key = permit.means.partition(":")[2]
        if await self._store.get(permit.principal.org_id, key) is None:
            return "who signed the SSH certificate of this login is not trusted any more"
        return None

    async def _find_account(self, user: str, certificate: SshCertificate, authority: SshAuthority) -> Account:
        """The one user whom it names and who may be called so. Raises Unauthenticated."""
        found: dict[UUID, Account] = {}
        for name in certificate.principals:
            by_email = await self._principals.by_email(authority.org_id, name)
            by_either = await self._principals.by_subject_or_email(authority.org_id, PrincipalKind.USER, name)
            for account in (by_email, by_either):
                if account is not None and name in _names(account) and is_called(account, user):
                    found[account.principal.id] = account
        if len(found) != 1:
            several = "several users are meant; say which by the whole e-mail address"
            nobody = "none of its principals is the e-mail address or the subject of the user that the client names"
            problem = several if found else nobody
            raise self._log_rejection(user, certificate, problem)
        return next(iter(found.values()))

    def _log_rejection(self, user: str, certificate: SshCertificate, problem: str) -> Unauthenticated:
        log.info(
            "the SSH certificate %s (serial %d, of %s, signed by %s) does not let %s in: %s",
            one_line(certificate.key_id[:100]),
            certificate.serial,
            certificate.key.fingerprint,
            certificate.authority.fingerprint,
            one_line(user[:100]),
            problem,
        )
        return Unauthenticated(f"this certificate does not let you in: {problem}")


def _names(account: Account) -> tuple[str, str]:
    """What a principal of a certificate may be, letter for letter."""
    return account.principal.email, account.principal.subject

"""API keys: created by users for programs, shown once, and checked at every use.

A key is PREFIX, 256 random bits in URL-safe base64, and six characters of checksum. The checksum detects typos and
false matches of secret scanners without a query. The store holds the SHA-256 of the whole key and looks it up by that
hash, so the time of a look-up reveals nothing about similar keys.
"""

from __future__ import annotations

import base64
import re
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from postern.domain.identity.api_key import PREFIX, ApiKey, digest_of
from postern.domain.identity.credential import IssuedCredential
from postern.domain.identity.networks import check_networks
from postern.domain.identity.principal import Account, Principal, PrincipalKind, PrincipalStatus
from postern.domain.secret import Secret
from postern.errors import Invalid, NotFound, Unauthenticated
from postern.services.identity.users import checked_groups, require_admin, require_person
from postern.services.named_resources import ResourceService
from postern.services.reviews.credential_endings import CredentialEndings
from postern.services.server.audit_context import record_change as note
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import ApiKeyStore, PrincipalStore
from postern.store.ports.target_ports import CredentialStore

_BYTES = 32
_RESOLVED = ("groups", "service_account", "expires_at", "expires_in_seconds")
_SHOWN = len(PREFIX) + 6
_TOUCHED = timedelta(minutes=1)
_KEY = re.compile(re.escape(PREFIX) + r"([A-Za-z0-9_-]{43})([A-Za-z0-9_-]{6})")
# No "@": a key must not look like an e-mail address in the audit log.
_NAME = re.compile(r"[A-Za-z0-9_](?:[-. ]?[A-Za-z0-9_]){0,127}")


class ApiKeys(ResourceService[ApiKey]):
    """The `KeyAuthenticator` of authentication, and the management of keys. Requests give the fields of a key, and

        groups                  of a key that acts for itself
        service_account         the subject of another principal to act as; only of a new key
        expires_in_seconds      instead of `expires_at`

    A replacement keeps the expiry and the networks that it leaves out, so that it never extends a key.
    """

    noun = "API key"
    preserved_fields = frozenset(field.name for field in fields(ApiKey)) - {"name", "updated_at"}

    def __init__(
        self,
        store: ApiKeyStore,
        principals: PrincipalStore,
        signals: Signals,
        now: Clock,
        credentials: CredentialStore,
        endings: CredentialEndings,
    ) -> None:
        super().__init__(store, signals, now)
        self._keys = store
        self._credentials = credentials
        self._endings = endings
        self._principals = principals

    async def authenticate(self, key: Secret, address: str) -> tuple[ApiKey, Principal]:
        """Return the key and its principal; called at every use, with the caller's address. Raises Unauthenticated."""
        if not is_well_formed(key):
            raise Unauthenticated("this is not an API key of this gateway; check that you copied all of it")
        api_key = self._require_usable(await self._keys.by_digest(digest_of(key)), address)
        now = self._now()
        if api_key.last_used_at is None or now - api_key.last_used_at >= _TOUCHED:
            await self._keys.touch(api_key.id, now)
        return api_key, api_key.account.principal

    async def standing(self, org_id: UUID, key_id: UUID, address: str) -> Principal:
        """Return the principal that a key acts as, while it can be used from the address. Raises Unauthenticated."""
        return self._require_usable(await self._keys.get(org_id, str(key_id)), address).account.principal

    def _require_usable(self, key: ApiKey | None, address: str) -> ApiKey:
        """Return the key where it can be used. Raises Unauthenticated."""
        if key is None:
            raise Unauthenticated("this API key is unknown")
        if key.revoked_at is not None:
            raise Unauthenticated("this API key was revoked; ask an administrator")
        if not key.is_live(self._now()):
            raise Unauthenticated("this API key has expired; ask an administrator")
        if not key.allows(address):
            raise Unauthenticated(f"this API key cannot be used from {address}")
        if not key.account.principal.is_active:
            raise Unauthenticated("the owner of this API key is not active; ask an administrator")
        return key

    def blank(self, key: UUID, org_id: UUID) -> ApiKey:
        key_id = uuid4()
        account = Account(Principal(key_id, org_id, str(key_id), "", "", kind=PrincipalKind.API_KEY))
        return ApiKey(key, org_id, account, "", "", (), "", self._now())

    async def create(self, principal: Principal, fields: Mapping[str, Any]) -> ApiKey:
        """Return the key with its secret, which is shown only once. Raises as any creation, Denied also for a key that
        would create keys."""
        secret = make_key()
        secret_fields = {"secret": secret, "shown": secret.reveal()[:_SHOWN]}
        maker = {"created_by": principal.email, "maker_id": principal.id}
        key = await super().create(principal, {**fields, **secret_fields, **maker})
        return replace(key, secret=secret)

    async def merge(self, current: ApiKey, base: ApiKey, fields: Mapping[str, Any]) -> ApiKey:
        is_replacement = base is not current
        if is_replacement and current.acts_for_itself:
            fields = {"groups": (), **fields}
        return await super().merge(current, base, fields)

    def check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise Invalid(
                "name: must have 1 to 128 letters, digits and underscores, with single blanks, dots or hyphens between",
                field="name",
            )

    async def resolve(self, current: ApiKey, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        resolved = {name: value for name, value in fields.items() if name not in _RESOLVED}
        if "allowed_networks" in fields:
            resolved["allowed_networks"] = check_networks(fields["allowed_networks"])
        expires_at = _expiry(fields.get("expires_at"), fields.get("expires_in_seconds"), self._now())
        if expires_at is not None:
            resolved["expires_at"] = expires_at
        return resolved | {"account": await self._account(current, fields)}

    async def _account(self, current: ApiKey, fields: Mapping[str, Any]) -> Account:
        """Return the account that the key acts as from now on. Raises Invalid."""
        account, subject = current.account, fields.get("service_account")
        if subject is not None and not (current.name and subject == account.principal.subject):
            if current.name:
                raise Invalid("service_account: cannot be changed; create another key", field="service_account")
            account = await self._service_account(current.org_id, subject)
        before = account.principal
        groups = checked_groups(fields["groups"]) if "groups" in fields else before.groups
        if before.kind is not PrincipalKind.API_KEY:
            if groups != before.groups:
                raise Invalid(
                    "groups: this key has the groups of its service account; change them there", field="groups"
                )
            return account
        name = fields.get("name", current.name)
        return replace(account, principal=replace(before, name=name, email=name, groups=groups))

    async def _service_account(self, org_id: UUID, subject: str) -> Account:
        account = await self._principals.by_subject(org_id, "", subject)
        if account is None or account.principal.kind is not PrincipalKind.SERVICE_ACCOUNT:
            raise Invalid(f"service_account: there is no service account {subject!r}", field="service_account")
        return account

    def require_admin(self, principal: Principal) -> None:
        self.require_remover(principal)
        require_person(principal, "create or change API keys")

    def require_remover(self, principal: Principal) -> None:
        """Allow API keys of administrators to revoke keys, too."""
        require_admin(principal, "create, change or revoke API keys")

    def audit_view(self, resource: ApiKey) -> dict[str, object]:
        """Return the audited fields. Any field called "key" would be redacted as a secret."""
        names = ("name", "allowed_networks", "expires_at", "created_by", "revoked_at", "revoked_by")
        acting = resource.account.principal
        return {name: getattr(resource, name) for name in names} | {"acts_as": acting.subject, "groups": acting.groups}

    async def announce(self, before: ApiKey | None, after: ApiKey | None) -> None:
        """Signal a change of a key with its own principal. A service account may have other keys, so its sessions
        continue."""
        if before is not None and before.acts_for_itself:
            await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(before.account.id))

    async def find_issued(self, principal: Principal, name_or_id: str) -> list[IssuedCredential]:
        """Return the live credentials that the key issued to machine identities; they outlive the key.

        Keys of one service account act as the same principal, so each of them has all that these issued. Raises Denied
        for all but admins and auditors, NotFound.
        """
        key = await self.get(principal, name_or_id)
        now = self._now()
        credentials = await self._credentials.issued_by(principal.org_id, key.account.id)
        return [credential for credential in credentials if credential.credential.is_active(now)]

    async def remove(
        self, principal: Principal, name_or_id: str, version: int | None = None, *, credentials: bool = False
    ) -> None:
        """Revoke the key; its row is kept. What it runs ends, unless it belongs to a service account, which may have
        other keys. `credentials`: also revoke those that it issued to machine identities.

        Raises as any removal, NotFound also when it was revoked before.
        """
        self.require_remover(principal)
        before = await self._current(principal, name_or_id, version)
        if before.revoked_at is not None:
            raise NotFound(f"the API key {name_or_id!r} is already revoked")
        revoked = replace(before, revoked_at=self._now(), revoked_by=principal.email)
        after = await self._save(before, revoked, PrincipalStatus.INACTIVE)
        if credentials:
            await self._revoke_issued(principal, before, after)

    async def _revoke_issued(self, principal: Principal, before: ApiKey, after: ApiKey) -> None:
        """Revoke them after the key, which could issue others until then."""
        revoked = []
        for credential in await self.find_issued(principal, str(after.id)):
            await self._credentials.revoke(credential.credential.id, self._now())
            await self._endings.announce(credential.credential.id)
            revoked.append({"username": credential.credential.username, "machine_identity": credential.holder})
        note(self.audit_view(before), {**self.audit_view(after), "revoked": revoked})

    async def reactivate(self, principal: Principal, name_or_id: str, version: int | None = None) -> ApiKey:
        """Raises Denied, NotFound, and Invalid when it was not revoked."""
        self.require_admin(principal)
        before = await self._current(principal, name_or_id, version)
        if before.revoked_at is None:
            raise Invalid(f"the API key {name_or_id!r} is not revoked")
        return await self._save(before, replace(before, revoked_at=None, revoked_by=None), PrincipalStatus.ACTIVE)

    async def _save(self, before: ApiKey, after: ApiKey, status: PrincipalStatus) -> ApiKey:
        if before.acts_for_itself:
            principal = replace(before.account.principal, status=status)
            after = replace(after, account=replace(before.account, principal=principal))
        await self._store.update(replace(after, updated_at=self._now()))
        return await self.publish_write(before, after)


def make_key() -> Secret:
    random = base64.urlsafe_b64encode(secrets.token_bytes(_BYTES)).decode().rstrip("=")
    return Secret(PREFIX + random + _checksum(random))


def is_well_formed(key: Secret) -> bool:
    """Return whether the text has the form and checksum of a key."""
    match = _KEY.fullmatch(key.reveal())
    return match is not None and _checksum(match[1]) == match[2]


def _checksum(random: str) -> str:
    summed = zlib.crc32((PREFIX + random).encode()).to_bytes(4, "big")
    return base64.urlsafe_b64encode(summed).decode().rstrip("=")


def _expiry(expires_at: datetime | None, seconds: int | None, now: datetime) -> datetime | None:
    """Return when the key expires; None where neither is given. Raises Invalid."""
    if expires_at is not None and seconds is not None:
        raise Invalid("expires_at: give this or expires_in_seconds, not both", field="expires_at")
    if seconds is not None:
        if not 1 <= seconds <= 10 * 366 * 86_400:
            raise Invalid("expires_in_seconds: must be 1 second to 10 years", field="expires_in_seconds")
        return now + timedelta(seconds=seconds)
    if expires_at is None:
        return None
    if expires_at.tzinfo is None:
        raise Invalid("expires_at: needs a time zone, such as 2030-01-01T00:00:00Z", field="expires_at")
    if expires_at <= now:
        raise Invalid("expires_at: is in the past", field="expires_at")
    return expires_at

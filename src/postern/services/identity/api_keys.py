"""API keys: made by people for programs, shown once, and asked at every use whether they still hold.

A key is PREFIX, 256 random bits in URL-safe base64, and six characters of checksum, so that a typo, and what a secret
scanner took for a key, is told apart without a question to the store. The store has the SHA-256 of the whole. It is
looked up by that hash: how long a look-up takes says nothing about a key that one could get nearer to.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import zlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from ipaddress import IPv6Network, ip_network
from uuid import UUID, uuid4

from postern.domain.api_key import PREFIX, ApiKey
from postern.domain.credential import IssuedCredential
from postern.domain.lists import Listed, Page
from postern.domain.principal import Account, Principal, PrincipalKind, PrincipalStatus
from postern.domain.secret import Secret
from postern.errors import Invalid, NotFound, Unauthenticated
from postern.services.identity.users import checked_groups, require_admin, require_person, require_reader
from postern.services.server.trail import changed as note
from postern.store.ports.common import Clock, Signals, Topic
from postern.store.ports.identity import ApiKeyStore, PrincipalStore
from postern.store.ports.targets import CredentialStore

MAX_NETWORKS = 100
_BYTES = 32
_SHOWN = len(PREFIX) + 6
_TOUCHED = timedelta(minutes=1)
_KEY = re.compile(re.escape(PREFIX) + r"([A-Za-z0-9_-]{43})([A-Za-z0-9_-]{6})")
# No "@": no key looks like somebody's e-mail address in the audit log.
_NAME = re.compile(r"[A-Za-z0-9_](?:[-. ]?[A-Za-z0-9_]){0,127}")


@dataclass(frozen=True, slots=True)
class ApiKeyFields:
    """None leaves as it is, or gives the default to a new key. `service_account` is a subject."""

    name: str | None = None
    groups: tuple[str, ...] | None = None
    service_account: str | None = None
    expires_at: datetime | None = None
    expires_in_seconds: int | None = None
    allowed_networks: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class KeyView:
    """A key, and whom it acts as."""

    key: ApiKey
    account: Account


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """The only time that the key itself is seen."""

    view: KeyView
    secret: Secret


class ApiKeys:
    """The `KeyDoor` of authentication, and the management of keys."""

    def __init__(
        self,
        store: ApiKeyStore,
        principals: PrincipalStore,
        signals: Signals,
        now: Clock,
        credentials: CredentialStore,
    ) -> None:
        self._store = store
        self._credentials = credentials
        self._principals = principals
        self._signals = signals
        self._now = now

    async def authenticate(self, key: Secret, address: str) -> tuple[ApiKey, Principal]:
        """Asked at every use, with the caller's address. Raises Unauthenticated."""
        if not is_well_formed(key):
            raise Unauthenticated("this is not an API key of this gateway; check that it was copied whole")
        found = await self._store.by_digest(digest_of(key))
        if found is None:
            raise Unauthenticated("this API key is not known here")
        kept, principal = found[0], self._checked(*found, address)
        now = self._now()
        if kept.last_used_at is None or now - kept.last_used_at >= _TOUCHED:
            await self._store.touch(kept.id, now)
        return kept, principal

    async def standing(self, org_id: UUID, key_id: UUID, address: str) -> Principal:
        """Whom a key acts as, as long as it may be used from there. Raises Unauthenticated."""
        found = await self._store.get(org_id, str(key_id))
        if found is None:
            raise Unauthenticated("this API key is not known here")
        return self._checked(*found, address)

    def _checked(self, kept: ApiKey, account: Account, address: str) -> Principal:
        """Raises Unauthenticated."""
        now = self._now()
        if kept.revoked_at is not None:
            raise Unauthenticated("this API key was revoked; ask an administrator")
        if not kept.is_live(now):
            raise Unauthenticated("this API key has expired; ask an administrator")
        if not kept.allows(address):
            raise Unauthenticated(f"this API key may not be used from {address}")
        if not account.principal.is_active:
            raise Unauthenticated("whom this API key belongs to is not active; ask an administrator")
        return account.principal

    async def find(self, principal: Principal, page: Page) -> Listed[KeyView]:
        """By name, revoked ones too. Raises Denied for all but admins and auditors."""
        require_reader(principal, "API keys")
        found = await self._store.find(principal.org_id, page)
        return Listed([KeyView(*pair) for pair in found.items], found.total)

    async def get(self, principal: Principal, name_or_id: str) -> KeyView:
        """Raises Denied, NotFound."""
        require_reader(principal, "API keys")
        return await self._get(principal, name_or_id)

    async def create(self, principal: Principal, fields: ApiKeyFields) -> IssuedKey:
        """Raises Denied (also for a key that would make keys), Invalid, Conflict."""
        require_admin(principal, "make API keys")
        require_person(principal, "make API keys")
        now = self._now()
        name = _checked_name(fields.name or "")
        acting, own = await self._acting(principal, name, fields)
        secret = make_key()
        key = ApiKey(
            id=uuid4(),
            org_id=principal.org_id,
            principal_id=acting.principal.id,
            name=name,
            shown=secret.reveal()[:_SHOWN],
            allowed_networks=_checked_networks(fields.allowed_networks or ()),
            created_by=principal.email,
            created_at=now,
            expires_at=_expiry(fields, now),
            maker_id=principal.id,
        )
        await self._store.add(key, digest_of(secret), own)
        view = await self._get(principal, str(key.id))
        note(None, _noted(view))
        return IssuedKey(view, secret)

    async def update(self, principal: Principal, name_or_id: str, fields: ApiKeyFields) -> KeyView:
        """Raises Denied, NotFound, Invalid, Conflict."""
        require_admin(principal, "change API keys")
        require_person(principal, "change API keys")
        before = await self._get(principal, name_or_id)
        key, own = before.key, _own(before)
        if fields.groups is not None and own is None:
            raise Invalid("groups: this key has those of its service account; change them there", field="groups")
        name = key.name if fields.name is None else _checked_name(fields.name)
        networks = fields.allowed_networks
        changed = replace(
            key,
            name=name,
            allowed_networks=key.allowed_networks if networks is None else _checked_networks(networks),
            expires_at=_expiry(fields, self._now()) or key.expires_at,
        )
        renamed = replace(own, principal=replace(own.principal, name=name, email=name)) if own else None
        groups = None if fields.groups is None else checked_groups(fields.groups)
        return await self._save(principal, before, changed, renamed, groups)

    async def issued(self, principal: Principal, name_or_id: str) -> list[IssuedCredential]:
        """Return the live credentials that the key issued to machine identities; they outlive the key.

        Keys of one service account act as the same principal, so each of them has all that these issued. Raises Denied
        for all but admins and auditors, NotFound.
        """
        require_reader(principal, "API keys")
        view = await self._get(principal, name_or_id)
        now = self._now()
        found = await self._credentials.issued_by(principal.org_id, view.key.principal_id)
        return [one for one in found if one.credential.is_active(now)]

    async def revoke(self, principal: Principal, name_or_id: str, *, credentials: bool = False) -> None:
        """The row is kept. What it runs ends, unless it belongs to a service account, which may have other keys.
        `credentials`: also revoke those that it issued to machine identities.

        Raises Denied, NotFound also when it was revoked before.
        """
        require_admin(principal, "revoke API keys")
        before = await self._get(principal, name_or_id)
        if before.key.revoked_at is not None:
            raise NotFound(f"the API key {name_or_id!r} was revoked already")
        changed = replace(before.key, revoked_at=self._now(), revoked_by=principal.email)
        after = await self._save(principal, before, changed, _with_status(_own(before), PrincipalStatus.INACTIVE))
        if credentials:
            await self._revoke_issued(principal, before, after)

    async def _revoke_issued(self, principal: Principal, before: KeyView, after: KeyView) -> None:
        """Revoke them after the key, which could issue others until then."""
        revoked = []
        for one in await self.issued(principal, str(after.key.id)):
            await self._credentials.revoke(one.credential.id, self._now())
            await self._signals.publish(Topic.CREDENTIAL_REVOKED, credential_id=str(one.credential.id))
            revoked.append({"username": one.credential.username, "machine_identity": one.holder})
        note(_noted(before), {**_noted(after), "revoked": revoked})

    async def reactivate(self, principal: Principal, name_or_id: str) -> KeyView:
        """Raises Denied, NotFound, and Invalid when it was not revoked."""
        require_admin(principal, "reactivate API keys")
        require_person(principal, "reactivate API keys")
        before = await self._get(principal, name_or_id)
        if before.key.revoked_at is None:
            raise Invalid(f"the API key {name_or_id!r} is not revoked")
        changed = replace(before.key, revoked_at=None, revoked_by=None)
        return await self._save(principal, before, changed, _with_status(_own(before), PrincipalStatus.ACTIVE))

    async def _save(
        self,
        principal: Principal,
        before: KeyView,
        key: ApiKey,
        own: Account | None,
        groups: frozenset[str] | None = None,
    ) -> KeyView:
        await self._store.update(key, self._now(), own, groups=groups)
        if own is not None:
            await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(own.principal.id))
        after = await self._get(principal, str(key.id))
        note(_noted(before), _noted(after))
        return after

    async def _get(self, principal: Principal, name_or_id: str) -> KeyView:
        found = await self._store.get(principal.org_id, name_or_id)
        if found is None:
            raise NotFound(f"there is no API key {name_or_id!r}")
        return KeyView(*found)

    async def _acting(self, principal: Principal, name: str, fields: ApiKeyFields) -> tuple[Account, Account | None]:
        """Whom the key acts as: a service account, or a principal of its own, which is then the second, too."""
        subject = fields.service_account
        if subject is None:
            key = uuid4()
            groups = checked_groups(fields.groups or ())
            own = Principal(key, principal.org_id, str(key), name, name, groups, PrincipalKind.API_KEY)
            account = Account(replace(own, role_groups=principal.role_groups))
            return account, account
        if fields.groups is not None:
            raise Invalid("groups: a key of a service account has the groups of that", field="groups")
        found = await self._principals.by_subject(principal.org_id, "", subject)
        if found is None or found.principal.kind is not PrincipalKind.SERVICE_ACCOUNT:
            raise Invalid(f"service_account: there is no service account {subject!r}", field="service_account")
        return found, None


def make_key() -> Secret:
    random = base64.urlsafe_b64encode(secrets.token_bytes(_BYTES)).decode().rstrip("=")
    return Secret(PREFIX + random + _checksum(random))


def is_well_formed(key: Secret) -> bool:
    """Whether it may be a key at all."""
    found = _KEY.fullmatch(key.reveal())
    return found is not None and _checksum(found[1]) == found[2]


def digest_of(key: Secret) -> bytes:
    """What the store has of it."""
    return hashlib.sha256(key.reveal().encode()).digest()


def _checksum(random: str) -> str:
    summed = zlib.crc32((PREFIX + random).encode()).to_bytes(4, "big")
    return base64.urlsafe_b64encode(summed).decode().rstrip("=")


def _own(view: KeyView) -> Account | None:
    """The principal that was made for this key; None for one of a service account."""
    return view.account if view.account.principal.kind is PrincipalKind.API_KEY else None


def _noted(view: KeyView) -> dict[str, object]:
    """For the audit log, which takes whatever is called a key for a secret."""
    names = ("name", "allowed_networks", "expires_at", "created_by", "revoked_at", "revoked_by")
    acting = view.account.principal
    return {name: getattr(view.key, name) for name in names} | {"acts_as": acting.subject, "groups": acting.groups}


def _with_status(own: Account | None, status: PrincipalStatus) -> Account | None:
    return None if own is None else replace(own, principal=replace(own.principal, status=status))


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Invalid(
            "name: must have 1 to 128 letters, digits and underscores, with single blanks, dots or hyphens between",
            field="name",
        )
    return name


def _checked_networks(given: tuple[str, ...]) -> tuple[str, ...]:
    if len(given) > MAX_NETWORKS:
        raise Invalid(f"allowed_networks: at most {MAX_NETWORKS}", field="allowed_networks")
    return tuple(dict.fromkeys(_checked_network(text) for text in given))


def _checked_network(text: str) -> str:
    try:
        network = ip_network(text)
    except ValueError:
        raise Invalid(
            f"allowed_networks: {text!r} is no network such as 192.0.2.0/24 or 2001:db8::/32", field="allowed_networks"
        ) from None
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None:
        raise Invalid(f"allowed_networks: write {text!r} as the IPv4 network that it is", field="allowed_networks")
    return str(network)


def _expiry(fields: ApiKeyFields, now: datetime) -> datetime | None:
    """Raises Invalid."""
    if fields.expires_at is not None and fields.expires_in_seconds is not None:
        raise Invalid("expires_at: give this or expires_in_seconds, not both", field="expires_at")
    if fields.expires_in_seconds is not None:
        if not 1 <= fields.expires_in_seconds <= 10 * 366 * 86_400:
            raise Invalid("expires_in_seconds: must be 1 second to 10 years", field="expires_in_seconds")
        return now + timedelta(seconds=fields.expires_in_seconds)
    if fields.expires_at is None:
        return None
    if fields.expires_at.tzinfo is None:
        raise Invalid("expires_at: needs a time zone, such as 2030-01-01T00:00:00Z", field="expires_at")
    if fields.expires_at <= now:
        raise Invalid("expires_at: lies in the past", field="expires_at")
    return fields.expires_at

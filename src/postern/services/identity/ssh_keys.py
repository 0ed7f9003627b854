"""The public keys by which users log in by SSH. Users add and remove their own; administrators remove any.

An offered key proves nothing: `find` returns whose it would be, and the caller admits them only after the client has
signed with that very key.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from postern.domain.features import Feature
from postern.domain.identity.names import fold_name
from postern.domain.identity.principal import Account, Principal, PrincipalKind
from postern.domain.identity.ssh_key import MOST_KEYS, SshKey, check_key_name, public_key
from postern.domain.lists import Listed, Page
from postern.domain.rules.permit import Permit
from postern.domain.rules.rule_filter import ALL_RULES, RuleFilter
from postern.errors import Conflict, Denied, Invalid, NotFound, Unauthenticated
from postern.services.identity.users import require_person, require_reader
from postern.services.server.audit_context import record_change
from postern.services.server.server_features import Features
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import PrincipalStore
from postern.store.ports.ssh_ports import SshKeyStore

MEANS = "ssh-key"
_TOUCHED = timedelta(minutes=1)
# One text for an unknown key, another's name, and an account or organisation that takes no keys.
_REFUSED = "this key is not registered for this user; add it: postern ssh-keys create"


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The holder of a key. A Permit takes over `means`, the auth method, and `until`, its expiry."""

    key: SshKey
    principal: Principal

    @property
    def means(self) -> str:
        return f"{MEANS}:{self.key.id}"

    @property
    def until(self) -> None:
        """When it expires: a key does not."""


class SshKeys:
    def __init__(
        self, store: SshKeyStore, principals: PrincipalStore, features: Features, signals: Signals, now: Clock
    ) -> None:
        self._store = store
        self._principals = principals
        self._features = features
        self._signals = signals
        self._now = now

    async def list_page(
        self, principal: Principal, page: Page, where: RuleFilter = ALL_RULES, user: str | None = None
    ) -> Listed[SshKey]:
        """Return own keys by name, or those of `user` for administrators and auditors. Raises Denied, NotFound."""
        return await self._store.find(principal.org_id, await self._owner(principal, user), page, where.name)

    async def get(self, principal: Principal, called: str, user: str | None = None) -> SshKey:
        """Return the key of this name or fingerprint: the caller's, or that of `user` for administrators and auditors.

        They also find any key by its identifier. Raises Denied, NotFound.
        """
        key = await self._store.get(principal.org_id, await self._owner(principal, user), called)
        if key is None or not (key.user_id == principal.id or principal.sees_all):
            raise NotFound(f"there is no SSH key {called!r}, or it is not yours")
        return key

    async def _owner(self, principal: Principal, user: str | None) -> UUID:
        """Return the user with this subject or e-mail address; None is oneself. Raises Denied, NotFound."""
        if user is None:
            return principal.id
        require_reader(principal, "the SSH keys of others")
        account = await self._principals.by_subject_or_email(principal.org_id, PrincipalKind.USER, user)
        if account is None:
            raise NotFound(f"there is no user {user!r}")
        return account.id

    async def add(self, principal: Principal, name: str, text: str) -> SshKey:
        """Add a key; `text` is OpenSSH's line. Raises Invalid, Denied for programs and auditors, Conflict for a name or
        key in use."""
        require_person(principal, "add SSH keys")
        if principal.is_auditor:
            raise Denied("auditors can read what others did, but cannot connect")
        key = SshKey(uuid4(), principal.org_id, principal.id, check_key_name(name), public_key(text), self._now())
        for ssh_key, account, _ in await self._store.by_fingerprint(key.key.fingerprint):
            if account.principal.id == principal.id:
                raise Conflict(f"public_key: you already have this key, as {ssh_key.name!r}", field="public_key")
        if not await self._store.add(key, MOST_KEYS):
            raise Invalid(f"public_key: at most {MOST_KEYS} keys for one user; remove one first", field="public_key")
        record_change(None, _audit_fields(key))
        return key

    async def remove(self, principal: Principal, called: str, user: str | None = None) -> None:
        """Remove an own key, or as an administrator any; its sessions end. Raises Denied, NotFound, also when it is
        not theirs."""
        key = await self.get(principal, called, user)
        if not (key.user_id == principal.id or principal.is_admin):
            raise NotFound(f"there is no SSH key {called!r}, or it is not yours")
        await self._store.remove(key.id)
        record_change(_audit_fields(key), None)
        await self._signals.publish(Topic.PRINCIPAL_CHANGED, principal_id=str(key.user_id))

    async def find(self, user: str, fingerprint: str, *, organisation: str | None = None) -> KeyHolder:
        """Return the current holder of a key.

        `fingerprint` is that of the key that the client offers or has signed with. `user` is the claimed name: a
        subject, an e-mail address, or its part before the @. `organisation` is its name, needed only where a user has
        the key in several. Raises Unauthenticated.
        """
        rows = await self._store.by_fingerprint(fingerprint)
        fitting = [
            KeyHolder(key, account.principal)
            for key, account, name in rows
            if organisation in (None, name) and is_called(account, user) and account.principal.is_active
        ]
        holders = [
            holder for holder in fitting if await self._features.is_enabled(holder.principal.org_id, Feature.SSH_KEYS)
        ]
        if len(holders) > 1:
            raise Unauthenticated(
                "this key belongs to this user in several organisations; name yours, as in Acme/ann#web-1"
            )
        if not holders:
            raise Unauthenticated(_REFUSED)
        return holders[0]

    async def record_use(self, holder: KeyHolder) -> None:
        """Record a login with the key, about once a minute."""
        last, now = holder.key.last_used_at, self._now()
        if last is None or now - last >= _TOUCHED:
            await self._store.touch(holder.key.id, now)

    async def standing(self, holder: KeyHolder) -> KeyHolder:
        """Return the holder's current state, for one that logged in earlier. Raises Unauthenticated."""
        row = await self._store.holder(holder.key.id)
        if row is None or row[1].principal.id != holder.principal.id:
            raise Unauthenticated("this SSH key was removed; log in with a different one")
        if not row[1].principal.is_active:
            raise Unauthenticated("this account is not active; ask an administrator")
        if not await self._features.is_enabled(holder.principal.org_id, Feature.SSH_KEYS):
            raise Unauthenticated("SSH keys are switched off in this organisation; ask an administrator")
        return KeyHolder(row[0], row[1].principal)

    async def find_end_reason(self, permit: Permit) -> str | None:
        """Return why sessions under this key must end; None otherwise."""
        key_id = UUID(permit.means.partition(":")[2])
        row = await self._store.holder(key_id)
        if row is None or row[1].principal.id != permit.principal.id:
            return "the SSH key of this login was removed"
        if not await self._features.is_enabled(permit.principal.org_id, Feature.SSH_KEYS):
            return "SSH keys were switched off in this organisation; ask an administrator"
        return None


def is_called(account: Account, user: str) -> bool:
    """Return whether `user` can mean this account.

    The proof identifies the user; this only prevents a login under a name that was not meant.
    """
    principal = account.principal
    email = principal.email
    return user == principal.subject or fold_name(user) in (email, email.rpartition("@")[0])


def _audit_fields(key: SshKey) -> dict[str, object]:
    """Return the audited fields. Any field called "key" would be redacted as a secret."""
    public_key = {"algorithm": key.key.algorithm, "fingerprint": key.key.fingerprint}
    return {"id": key.id, "name": key.name, "user_id": key.user_id, **public_key}

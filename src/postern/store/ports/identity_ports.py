"""The stores of identities: principals, groups, logins, one-time tokens, keys, second factors.

Every method that takes `org_id` sees only that organisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from postern.domain.identity.api_key import ApiKey
from postern.domain.identity.federation import FederationRule
from postern.domain.identity.login import Login, LoginMethod, Provided, TokenPurpose
from postern.domain.identity.machine import MachineIdentity
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.preferences import Preferences
from postern.domain.identity.principal import (
    Account,
    GroupSource,
    Principal,
    PrincipalFilter,
    PrincipalKind,
    UserGroup,
)
from postern.domain.identity.second_factor import FactorKind, SecondFactor
from postern.domain.lists import Listed, Page
from postern.store.ports.named_resource_ports import NamedResourceStore


class PreferenceStore(Protocol):
    async def get(self, user_id: UUID) -> Preferences:
        """Return the user's preferences; NO_PREFERENCES if none are stored."""

    async def put(self, user_id: UUID, content: str, at: datetime, version: int | None) -> Preferences | None:
        """Replace them, and return them with their next version. None if `version` is given and is not the stored
        one."""


class PrincipalStore(Protocol):
    async def get(self, org_id: UUID, principal_id: UUID) -> Account | None: ...

    async def profile(self, org_id: UUID, principal_id: UUID) -> tuple[Account, Organisation, int] | None:
        """Return the account, its organisation, and the number of organisations. One statement."""

    async def by_email(self, org_id: UUID, email: str) -> Account | None:
        """Return a user. E-mail addresses are stored and looked up in lower case."""

    async def by_subject(self, org_id: UUID, issuer: str, subject: str) -> Account | None: ...

    async def by_subject_or_email(self, org_id: UUID, kind: PrincipalKind, key: str) -> Account | None:
        """Return an account; a subject takes precedence over an e-mail of the same spelling."""

    async def find(self, org_id: UUID, criteria: PrincipalFilter, page: Page) -> Listed[Account]:
        """Return accounts by e-mail, then id."""

    async def count(self, org_id: UUID, kind: PrincipalKind = PrincipalKind.USER) -> int: ...

    async def add(self, account: Account, at: datetime, *, source: GroupSource = GroupSource.MANUAL) -> None:
        """Add an account with its groups, from `source`. Raises Conflict when e-mail or subject is in use."""

    async def add_first(self, account: Account, at: datetime) -> bool:
        """Add an account only while the organisation has no user; False otherwise. Exactly one caller gets True."""

    async def update(
        self,
        account: Account,
        at: datetime,
        *,
        groups: frozenset[str] | None = None,
        source: GroupSource = GroupSource.MANUAL,
    ) -> None:
        """Write all but id, org_id, kind and password; `groups`, unless None, as `set_groups`, in one transaction.

        Raises NotFound, Conflict when the e-mail is in use or the account was changed since it was read, and Invalid
        when the organisation would have no active administrator any more.
        """

    async def confirm(self, before: Account, after: Account, at: datetime) -> bool:
        """Write what a login changed of an account, and nothing else of it, while it has the status that was read.
        Return False where it has another one. Raises Conflict when e-mail or subject is taken."""

    async def set_groups(self, principal_id: UUID, groups: frozenset[str], source: GroupSource) -> None:
        """Set the groups from `source`; those from others stay.

        Raises NotFound, and Invalid when the last active administrator would lose the role; not for PROVIDER, which is
        authoritative at the user's own login.
        """

    async def groups_by(self, principal_id: UUID, source: GroupSource) -> frozenset[str]: ...

    async def set_password(self, principal_id: UUID, password_hash: str | None, at: datetime) -> None: ...

    async def touch(self, principal_id: UUID, at: datetime) -> None:
        """Record a login."""

    async def remove(self, principal_id: UUID, version: int | None = None) -> None:
        """Remove the account with all that belongs to it. `version` is the one that was read.

        Raises Conflict for a different version, and Invalid for the last active administrator of the organisation.
        """


class GroupStore(NamedResourceStore[UserGroup], Protocol):
    """A renamed group keeps its members, and has its new name in rules and connections.

    A removed one is removed from those, too: a later group of its name is different. Raises Conflict where a rule or a
    connection would require less without it. Both change the accounts of its members.
    """

    async def find_provisioned(
        self, org_id: UUID, page: Page, *, name: str | None = None, external_id: str | None = None
    ) -> Listed[UserGroup]:
        """Return groups by name."""

    async def members(self, group: UserGroup, source: GroupSource | None = None) -> list[Principal]:
        """Return members by e-mail; only those from `source` when it is given."""

    async def change_members(
        self, group: UserGroup, added: frozenset[UUID], removed: frozenset[UUID], source: GroupSource
    ) -> None:
        """Change the members from `source`; those from others stay. It changes their accounts.

        Raises NotFound when the group is gone, Invalid for a new member that is not a user of the organisation, and if
        the last active administrator would lose the role.
        """


class LoginStore(Protocol):
    async def add(self, login: Login) -> None:
        """Add a login, and end the oldest live ones of a user that has too many."""

    async def standing(self, login_id: UUID) -> tuple[Login, Account] | None:
        """Return the login and its account, in any state. One statement: every request of the API calls it."""

    async def extend(self, login_id: UUID, expires_at: datetime) -> None: ...

    async def confirm(self, login_id: UUID, fresh_until: datetime) -> None: ...

    async def store_renewal(self, login_id: UUID, provided: Provided) -> None:
        """Store the provider's new confirmation."""

    async def end(self, login_id: UUID, at: datetime) -> bool:
        """End a login; False when it had ended before."""

    async def end_all(self, user_id: UUID, at: datetime, *, but: UUID | None = None) -> int:
        """End all live logins of a user, except one, and delete their one-time tokens for logins. Return how many."""

    async def end_of_rule(self, rule_id: UUID, at: datetime) -> list[UUID]:
        """End the logins that a federation rule allowed; return their users."""

    async def live(self, user_id: UUID, now: datetime) -> list[Login]:
        """Return live logins, newest first."""

    async def due(self, method: LoginMethod, now: datetime, most: int) -> list[Login]:
        """Return live logins by this method whose confirmation has expired and can be renewed, oldest first."""

    async def prune(self, before: datetime) -> None:
        """Delete those that ended, or expired, before that."""


@dataclass(frozen=True, slots=True)
class NewOneTimeToken:
    """A token. `digest` is the SHA-256 of its secret; `payload` is JSON. `user_id`: its owner, with whom it is
    deleted. `source`: the network of an unauthenticated client."""

    purpose: TokenPurpose
    digest: bytes
    payload: Mapping[str, Any]
    at: datetime
    expires_at: datetime
    user_id: UUID | None = None
    source: str | None = None


class OneTimeTokenStore(Protocol):
    """One-time tokens by the SHA-256 of their secret; payloads are sealed."""

    async def add(self, one_time_token: NewOneTimeToken) -> None:
        """Add a token. Where there are too many, the oldest of the source that has most makes room.

        Raises Conflict when the digest is in use, TooMany when too many tokens without a source exist for this purpose.
        """

    async def take(self, purpose: TokenPurpose, digest: bytes, now: datetime) -> Mapping[str, Any] | None:
        """Delete the token and return its payload, for exactly one caller; None when there is none, or it has
        expired."""

    async def peek(self, purpose: TokenPurpose, digest: bytes, now: datetime) -> Mapping[str, Any] | None: ...

    async def change(
        self, purpose: TokenPurpose, digest: bytes, payload: Mapping[str, Any], user_id: UUID | None = None
    ) -> bool:
        """Replace the payload; False when the token is gone. `user_id` as in `add`."""

    async def forget(self, purpose: TokenPurpose, user_id: UUID) -> None:
        """Delete all tokens of a user for this purpose."""

    async def prune(self, now: datetime) -> None: ...


class ApiKeyStore(NamedResourceStore[ApiKey], Protocol):
    """A key is written with its own principal, and a new one with its digest."""

    async def by_digest(self, digest: bytes) -> ApiKey | None:
        """Return the key and its account, in any state. One statement."""

    async def touch(self, key_id: UUID, at: datetime) -> None:
        """Record a use."""


class FederationRuleStore(NamedResourceStore[FederationRule], Protocol):
    """A rule is deleted with its service account."""

    async def by_issuer(self, org_id: UUID, issuer_url: str) -> list[FederationRule]:
        """Return the rules that trust this issuer, by name."""


class MachineStore(NamedResourceStore[MachineIdentity], Protocol):
    """Reads leave out `connection_names`, which depend on the time."""

    async def connections_of(self, ids: Sequence[UUID], now: datetime) -> Mapping[UUID, tuple[str, ...]]:
        """Return the names of the connections that each has a live credential for. One statement."""


class SecondFactorStore(Protocol):
    async def of(self, user_id: UUID) -> Sequence[SecondFactor]:
        """Return factors, oldest first, unconfirmed ones included."""

    async def add(self, factor: SecondFactor) -> None: ...

    async def confirm(self, factor_id: UUID, at: datetime) -> None: ...

    async def use(self, factor_id: UUID, counter: int, at: datetime) -> bool:
        """Raise the counter; False when it is that high already, so that no code is accepted twice."""

    async def touch(self, factor_id: UUID, at: datetime) -> None:
        """Record a use, for an authenticator without a counter."""

    async def remove(self, factor_id: UUID) -> bool:
        """Remove a factor; False when it was gone. A recovery code is used by removing it."""

    async def clear(self, user_id: UUID, kind: FactorKind | None = None) -> int:
        """Remove all factors of a user, or those of a kind. Return how many."""


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """A key; `private` is a JWK as JSON. A retired one verifies what it signed, and no longer signs."""

    id: UUID
    private: bytes
    created_at: datetime
    retired_at: datetime | None = None

    def __repr__(self) -> str:
        return f"SigningKey(id={self.id})"


class SigningKeyStore(Protocol):
    async def all(self) -> list[SigningKey]:
        """Return keys, newest first."""

    async def rotate(self, key: SigningKey, at: datetime, *, first: bool = False) -> None:
        """Add a key and retire all others. With `first`, do nothing when there is any."""

    async def prune(self, before: datetime) -> None:
        """Delete those retired before that."""

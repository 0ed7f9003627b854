"""What services of identity need of the store: principals, groups, logins, vouchers, keys, second factors.

Every method that takes `org_id` sees only that organisation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from postern.domain.identity.api_key import ApiKey
from postern.domain.identity.login import Login, Provided, VoucherPurpose
from postern.domain.identity.machine import MachineIdentity
from postern.domain.identity.organisation import Organisation
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


class PrincipalStore(Protocol):
    async def get(self, org_id: UUID, principal_id: UUID) -> Account | None: ...

    async def profile(self, org_id: UUID, principal_id: UUID) -> tuple[Account, Organisation, int] | None:
        """The account, its organisation, and how many organisations the server has. One statement."""

    async def by_email(self, org_id: UUID, email: str) -> Account | None:
        """A user. E-mail addresses are kept and looked up in lower case."""

    async def by_subject(self, org_id: UUID, issuer: str, subject: str) -> Account | None: ...

    async def by_subject_or_email(self, org_id: UUID, kind: PrincipalKind, key: str) -> Account | None:
        """The subject wins over an e-mail of the same spelling."""

    async def find(self, org_id: UUID, wanted: PrincipalFilter, page: Page) -> Listed[Account]:
        """By e-mail, then id."""

    async def count(self, org_id: UUID, kind: PrincipalKind = PrincipalKind.USER) -> int: ...

    async def add(self, account: Account, at: datetime, *, source: GroupSource = GroupSource.MANUAL) -> None:
        """With its groups, given by `source`. Raises Conflict when e-mail or subject is taken."""

    async def add_first(self, account: Account, at: datetime) -> bool:
        """As `add`, but only while the organisation has no user; False otherwise. Exactly one caller gets True."""

    async def update(
        self,
        account: Account,
        at: datetime,
        *,
        groups: frozenset[str] | None = None,
        source: GroupSource = GroupSource.MANUAL,
    ) -> None:
        """All but id, org_id, kind and password; `groups`, unless None, as `set_groups`, in one transaction.

        Raises NotFound, Conflict when e-mail is taken or the account was changed since it was read, and Invalid when
        the organisation would have no active administrator any more.
        """

    async def confirm(self, before: Account, after: Account, at: datetime) -> bool:
        """Write what a login changed of an account, and nothing else of it, while it has the status that was read.
        Return False where it has another one. Raises Conflict when e-mail or subject is taken."""

    async def set_groups(self, principal_id: UUID, groups: frozenset[str], source: GroupSource) -> None:
        """What `source` gives, from now on; what others gave stays.

        Raises NotFound, and Invalid when the last active administrator would be none any more; not for PROVIDER,
        whose word at somebody's own login is the last.
        """

    async def groups_by(self, principal_id: UUID, source: GroupSource) -> frozenset[str]: ...

    async def set_password(self, principal_id: UUID, password_hash: str | None, at: datetime) -> None: ...

    async def touch(self, principal_id: UUID, at: datetime) -> None:
        """Notes a login."""

    async def remove(self, principal_id: UUID, version: int | None = None) -> None:
        """With all that is theirs. `version` is the one that was read. Raises Conflict for another version, and Invalid
        for the last active administrator of the organisation."""


class GroupStore(NamedResourceStore[UserGroup], Protocol):
    """A renamed group keeps its members, and has its new name in rules and connections. One that is removed is removed
    from those, too: a later group of its name is another one. Conflict where a rule or a connection would ask for less
    without it. Both are changes of the accounts that are in the group."""

    async def find_provisioned(
        self, org_id: UUID, page: Page, *, name: str | None = None, external_id: str | None = None
    ) -> Listed[UserGroup]:
        """By name."""

    async def members(self, group: UserGroup, source: GroupSource | None = None) -> list[Principal]:
        """By e-mail; those that `source` put there when it is given."""

    async def change_members(
        self, group: UserGroup, added: frozenset[UUID], removed: frozenset[UUID], source: GroupSource
    ) -> None:
        """Who is in it by `source`; who others put there stays. It is a change of their accounts.

        Raises NotFound when the group is gone, Invalid for one who is added and is no user of the organisation, and
        when the last active administrator would be none any more.
        """


class LoginStore(Protocol):
    async def add(self, login: Login) -> None:
        """Ends the oldest live ones of a user who has more than enough."""

    async def standing(self, login_id: UUID) -> tuple[Login, Account] | None:
        """The login and whose it is, whatever their state. One statement: every request of the API asks this."""

    async def extend(self, login_id: UUID, expires_at: datetime) -> None: ...

    async def renewed(self, login_id: UUID, provided: Provided) -> None:
        """What the provider gave when it was asked again."""

    async def end(self, login_id: UUID, at: datetime) -> bool:
        """False when it had ended before."""

    async def end_all(self, user_id: UUID, at: datetime, *, but: UUID | None = None) -> int:
        """All live ones of a user, but one; and what is under way to become one: its vouchers go. Answers how many."""

    async def live(self, user_id: UUID, now: datetime) -> list[Login]:
        """Newest first."""

    async def prune(self, before: datetime) -> None:
        """Forgets those that ended, or could have been used last, before that."""


@dataclass(frozen=True, slots=True)
class NewVoucher:
    """`digest` is the SHA-256 of its secret; `payload` is JSON. `user_id`: whose it is; it goes with them.
    `source`: the network of a stranger who asked for it."""

    purpose: VoucherPurpose
    digest: bytes
    payload: Mapping[str, Any]
    at: datetime
    expires_at: datetime
    user_id: UUID | None = None
    source: str | None = None


class VoucherStore(Protocol):
    """Vouchers by the SHA-256 of their secret; payloads are sealed."""

    async def add(self, voucher: NewVoucher) -> None:
        """Where there are too many, the oldest of the source that has most makes room. Raises Conflict when the digest
        is taken, TooMany when too many of this purpose are outstanding that no stranger asked for."""

    async def take(self, purpose: VoucherPurpose, digest: bytes, now: datetime) -> Mapping[str, Any] | None:
        """The payload, for exactly one caller; None when there is none, or it has expired."""

    async def peek(self, purpose: VoucherPurpose, digest: bytes, now: datetime) -> Mapping[str, Any] | None: ...

    async def change(
        self, purpose: VoucherPurpose, digest: bytes, payload: Mapping[str, Any], user_id: UUID | None = None
    ) -> bool:
        """False when there is none any more. `user_id` as in `add`."""

    async def forget(self, purpose: VoucherPurpose, user_id: UUID) -> None:
        """All of a user's for this purpose."""

    async def prune(self, now: datetime) -> None: ...


class ApiKeyStore(NamedResourceStore[ApiKey], Protocol):
    """A key is written with the principal that was made for it, and a new one with its digest."""

    async def by_digest(self, digest: bytes) -> ApiKey | None:
        """The key and whom it acts as, whatever their state. One statement."""

    async def touch(self, key_id: UUID, at: datetime) -> None:
        """Notes a use."""


class MachineStore(NamedResourceStore[MachineIdentity], Protocol):
    """Reads leave out `connection_names`, which depend on the time."""

    async def connections_of(self, ids: Sequence[UUID], now: datetime) -> Mapping[UUID, tuple[str, ...]]:
        """Return the names of the connections that each has a live credential for. One statement."""


class SecondFactorStore(Protocol):
    async def of(self, user_id: UUID) -> Sequence[SecondFactor]:
        """Oldest first, unconfirmed ones included."""

    async def add(self, factor: SecondFactor) -> None: ...

    async def confirm(self, factor_id: UUID, at: datetime) -> None: ...

    async def use(self, factor_id: UUID, counter: int, at: datetime) -> bool:
        """Raises the counter; False when it is that high already, so that no code is accepted twice."""

    async def touch(self, factor_id: UUID, at: datetime) -> None:
        """Notes a use, for an authenticator that does not count."""

    async def remove(self, factor_id: UUID) -> bool:
        """False when it was gone: a recovery code is used by removing it."""

    async def clear(self, user_id: UUID, kind: FactorKind | None = None) -> int:
        """Removes all of a user's, or those of a kind. Answers how many."""


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """`private` is a JWK as JSON. A key that was retired verifies what it signed, and signs no more."""

    id: UUID
    private: bytes
    created_at: datetime
    retired_at: datetime | None = None

    def __repr__(self) -> str:
        return f"SigningKey(id={self.id})"


class SigningKeyStore(Protocol):
    async def all(self) -> list[SigningKey]:
        """Newest first."""

    async def rotate(self, key: SigningKey, at: datetime, *, first: bool = False) -> None:
        """Adds a key and retires all others. With `first`, does nothing when there is any."""

    async def prune(self, before: datetime) -> None:
        """Forgets those retired before that."""

"""Principals and their groups."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, bindparam, case, delete, func, insert, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert  # SQLite has the same ON CONFLICT, and compiles it alike
from sqlalchemy.exc import IntegrityError

from postern.domain.identity.names import fold_name
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Account, GroupSource, PrincipalFilter, PrincipalKind, PrincipalStatus
from postern.domain.lists import Listed, Page
from postern.errors import Conflict, NotFound
from postern.store.database import Database
from postern.store.prepared import PreparedStatement
from postern.store.schema.identity_tables import api_keys, groups, orgs, user_groups, users
from postern.store.sql.identity.admins import keeping_an_admin
from postern.store.sql.locking import one_at_a_time
from postern.store.sql.resource_table import CHANGED_MEANWHILE
from postern.store.sql.rows import account_of, count_of, groups_column, role_groups_columns
from postern.store.threaded import Executor

ACCOUNT = select(*users.c, groups_column(), *role_groups_columns()).join(orgs, orgs.c.id == users.c.org_id)
# Clients ask it all the time, to see whether their token is still good.
_PROFILE = PreparedStatement(
    ACCOUNT.add_columns(
        orgs.c.name.label("org_name"),
        orgs.c.created_at.label("org_created_at"),
        select(func.count()).select_from(orgs.alias()).scalar_subquery().label("organisations"),
    ).where(users.c.org_id == bindparam("org"), users.c.id == bindparam("principal"))
)
_KEPT = ("id", "org_id", "kind", "password_hash", "last_login_at")  # what other statements write


class SqlPrincipals:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, org_id: UUID, principal_id: UUID) -> Account | None:
        return await self._one(users.c.org_id == org_id, users.c.id == principal_id)

    async def profile(self, org_id: UUID, principal_id: UUID) -> tuple[Account, Organisation, int] | None:
        values = {"org": org_id, "principal": principal_id}
        async with self._database.statement() as connection:
            rows = await connection.run_sync(lambda connection: _PROFILE.rows(connection, values))
        if not rows:
            return None
        row, account = rows[0], account_of(rows[0])
        organisation = Organisation(org_id, row["org_name"], row["org_created_at"], account.principal.role_groups)
        return account, organisation, row["organisations"]

    async def by_email(self, org_id: UUID, email: str) -> Account | None:
        return await self._one(
            users.c.org_id == org_id, users.c.kind == PrincipalKind.USER, users.c.email == fold_name(email)
        )

    async def by_subject(self, org_id: UUID, issuer: str, subject: str) -> Account | None:
        return await self._one(users.c.org_id == org_id, users.c.issuer == issuer, users.c.subject == subject)

    async def by_subject_or_email(self, org_id: UUID, kind: PrincipalKind, key: str) -> Account | None:
        # One user's e-mail address can be the subject of another user: then the subject takes precedence.
        return await self._one(
            users.c.org_id == org_id,
            users.c.kind == kind,
            or_(users.c.subject == key, users.c.email == fold_name(key)),
            first=users.c.subject == key,
        )

    async def _one(self, *conditions: ColumnElement[bool], first: ColumnElement[bool] | None = None) -> Account | None:
        query = ACCOUNT.where(*conditions)
        if first is not None:
            query = query.order_by(case((first, 0), else_=1)).limit(1)
        async with self._database.statement() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        return None if row is None else account_of(row)

    async def find(self, org_id: UUID, criteria: PrincipalFilter, page: Page) -> Listed[Account]:
        conditions = _conditions(org_id, criteria)
        order = (users.c.email, users.c.id)
        # Groups are joined for the accounts of the page only, and not for those that the offset leaves out.
        ids = select(users.c.id).where(*conditions).order_by(*order).limit(page.limit).offset(page.offset)
        rows = ACCOUNT.where(users.c.id.in_(ids)).order_by(*order)
        async with self._database.statement() as connection:
            found_rows = (await connection.execute(rows)).mappings().all()
            total = (await connection.execute(count_of(users, *conditions))).scalar_one()
        return Listed([account_of(row) for row in found_rows], total)

    async def count(self, org_id: UUID, kind: PrincipalKind = PrincipalKind.USER) -> int:
        async with self._database.statement() as connection:
            query = count_of(users, users.c.org_id == org_id, users.c.kind == kind)
            return int((await connection.execute(query)).scalar_one())

    async def add(self, account: Account, at: datetime, *, source: GroupSource = GroupSource.MANUAL) -> None:
        with taken_as_conflict("email", account.principal.email):
            async with self._database.transaction() as transaction:
                await add_account(transaction, account, at, source)

    async def add_first(self, account: Account, at: datetime) -> bool:
        principal = account.principal
        with taken_as_conflict("email", principal.email):
            async with self._database.transaction() as transaction:
                await one_at_a_time(transaction)
                query = count_of(users, users.c.org_id == principal.org_id, users.c.kind == PrincipalKind.USER)
                if (await transaction.execute(query)).scalar_one():
                    return False
                await add_account(transaction, account, at, GroupSource.MANUAL)
        return True

    async def update(
        self,
        account: Account,
        at: datetime,
        *,
        groups: frozenset[str] | None = None,
        source: GroupSource = GroupSource.MANUAL,
    ) -> None:
        with taken_as_conflict("email", account.principal.email):
            async with self._database.transaction() as transaction:
                await change_account(transaction, account, at, groups, source)

    async def confirm(self, before: Account, after: Account, at: datetime) -> bool:
        old, new = account_values(before), account_values(after)
        values = {name: value for name, value in new.items() if value != old[name]}
        same = (users.c.id == after.id, users.c.status == before.principal.status)
        changed = update(users).where(*same).values(values | {"updated_at": at})
        if values.keys() - {"last_login_at"}:
            changed = changed.values(version=users.c.version + 1)
        with taken_as_conflict("email", after.principal.email):
            async with self._database.transaction() as transaction:
                return (await transaction.execute(changed)).rowcount == 1

    async def set_groups(self, principal_id: UUID, names: frozenset[str], source: GroupSource) -> None:
        async with self._database.transaction() as transaction:
            org_id = (await transaction.execute(select(users.c.org_id).where(users.c.id == principal_id))).scalar()
            if org_id is None:
                raise NotFound("this user was deleted")
            async with _keep_an_admin(transaction, org_id, source is not GroupSource.PROVIDER):
                await hold_groups(transaction, org_id, names)
                await count_changes(transaction, users.c.id == principal_id)
                await _set_groups(transaction, principal_id, names, source)

    async def groups_by(self, principal_id: UUID, source: GroupSource) -> frozenset[str]:
        query = select(user_groups.c.name).where(user_groups.c.user_id == principal_id, user_groups.c.source == source)
        async with self._database.statement() as connection:
            return frozenset((await connection.execute(query)).scalars())

    async def set_password(self, principal_id: UUID, password_hash: str | None, at: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(
                update(users).where(users.c.id == principal_id).values(password_hash=password_hash, updated_at=at)
            )

    async def touch(self, principal_id: UUID, at: datetime) -> None:
        async with self._database.statement() as connection:
            await connection.execute(update(users).where(users.c.id == principal_id).values(last_login_at=at))

    async def remove(self, principal_id: UUID, version: int | None = None) -> None:
        same = [users.c.version == version] if version is not None else []
        async with self._database.transaction() as transaction:
            org_id = (await transaction.execute(select(users.c.org_id).where(users.c.id == principal_id))).scalar()
            if org_id is None:
                return
            async with keeping_an_admin(transaction, org_id):
                gone = delete(users).where(users.c.id == principal_id, *same)
                if (await transaction.execute(gone)).rowcount != 1:
                    raise Conflict(f"this account {CHANGED_MEANWHILE}")


async def add_account(transaction: Executor, account: Account, at: datetime, source: GroupSource) -> None:
    """Add an account with its groups. Raises IntegrityError."""
    principal = account.principal
    values = account_values(account) | {"created_at": at, "updated_at": at}
    await hold_groups(transaction, principal.org_id, principal.groups)
    await transaction.execute(insert(users).values(values))
    await _join(transaction, principal.id, principal.groups, source)


async def change_account(
    transaction: Executor,
    account: Account,
    at: datetime,
    groups: frozenset[str] | None,
    source: GroupSource,
) -> None:
    """Write all that can change of an account, and the groups that `source` gives unless None.

    Raises IntegrityError, NotFound, Conflict where it was changed since it was read, and Invalid when the last active
    administrator would be lost.
    """
    principal = account.principal
    values = {name: value for name, value in account_values(account).items() if name not in _KEPT}
    same = update(users).where(users.c.id == principal.id, users.c.version == account.version)
    changed = same.values(**values, updated_at=at, version=account.version + 1)
    taken_away = groups is not None and source is not GroupSource.PROVIDER
    async with _keep_an_admin(
        transaction, principal.org_id, taken_away or principal.status is not PrincipalStatus.ACTIVE
    ):
        await hold_groups(transaction, principal.org_id, groups or frozenset())
        if (await transaction.execute(changed)).rowcount != 1:
            there = (await transaction.execute(select(users.c.id).where(users.c.id == principal.id))).first()
            if there is None:
                raise NotFound(f"{principal.email!r} was deleted")
            raise Conflict(f"{principal.email!r} {CHANGED_MEANWHILE}")
        if groups is not None:
            await _set_groups(transaction, principal.id, groups, source)


async def count_changes(transaction: Executor, *which: ColumnElement[bool]) -> None:
    """Count a change of these accounts, before it is made: a write of what was read before is then rejected.

    A key's version counts changes of its account. Rows are locked in one order, so that two such changes cannot
    deadlock.
    """
    accounts = select(users.c.id).where(*which)
    await transaction.execute(accounts.order_by(users.c.id).with_for_update())
    for table, key in ((users, users.c.id), (api_keys, api_keys.c.principal_id)):
        await transaction.execute(update(table).where(key.in_(accounts)).values(version=table.c.version + 1))


@asynccontextmanager
async def _keep_an_admin(transaction: Executor, org_id: UUID, needed: bool) -> AsyncIterator[None]:
    if not needed:
        yield
        return
    async with keeping_an_admin(transaction, org_id):
        yield


async def _set_groups(transaction: Executor, principal_id: UUID, names: frozenset[str], source: GroupSource) -> None:
    mine = (user_groups.c.user_id == principal_id, user_groups.c.source == source)
    await transaction.execute(delete(user_groups).where(*mine))
    await _join(transaction, principal_id, names, source)


async def hold_groups(transaction: Executor, org_id: UUID, names: frozenset[str]) -> None:
    """Create missing groups, and lock all of them, so that none is renamed or removed concurrently. Raises Conflict.

    Groups are locked before their members, and before what names them. Existing ones are locked before others are
    created: a rename has locked its group before its new name is in use.
    """
    locked_groups = await _locked_groups(transaction, org_id, names)
    if locked_groups == names:
        return
    at = datetime.now(UTC)
    rows = [{"id": uuid4(), "org_id": org_id, "name": name, "created_at": at} for name in sorted(names - locked_groups)]
    await transaction.execute(upsert(groups).on_conflict_do_nothing(), rows)
    if await _locked_groups(transaction, org_id, names) != names:
        raise Conflict("one of these groups was just renamed or removed; try again")


async def _locked_groups(transaction: Executor, org_id: UUID, names: frozenset[str]) -> frozenset[str]:
    if not names:
        return names
    there = select(groups.c.name).where(groups.c.org_id == org_id, groups.c.name.in_(names)).order_by(groups.c.id)
    return frozenset((await transaction.execute(there.with_for_update(read=True))).scalars())


async def _join(transaction: Executor, principal_id: UUID, names: frozenset[str], source: GroupSource) -> None:
    rows = [{"user_id": principal_id, "name": name, "source": source} for name in sorted(names)]
    if rows:
        await transaction.execute(insert(user_groups), rows)


def account_values(account: Account) -> dict[str, Any]:
    principal = account.principal
    copied_names = ("id", "org_id", "subject", "name", "kind", "status", "issuer")
    return {name: getattr(principal, name) for name in copied_names} | {
        "email": principal.email.lower(),
        "password_hash": account.password_hash,
        "verified": account.verified,
        "picture": account.picture,
        "external_id": account.external_id,
        "user_name": account.user_name,
        "last_login_at": account.last_login_at,
        "managed_by": account.managed_by,
    }


def _conditions(org_id: UUID, criteria: PrincipalFilter) -> list[ColumnElement[bool]]:
    conditions = [users.c.org_id == org_id, users.c.kind == criteria.kind]
    if criteria.search:
        text = criteria.search.lower()
        names = [func.lower(users.c.name), users.c.email]
        if criteria.kind is PrincipalKind.SERVICE_ACCOUNT:  # which administrators name; that of a user is an identifier
            names.append(func.lower(users.c.subject))
        conditions.append(or_(*(name.contains(text, autoescape=True) for name in names)))
    if criteria.called is not None:
        conditions.append(or_(users.c.name == criteria.called, users.c.email == fold_name(criteria.called)))
    if criteria.group is not None:
        members = select(user_groups.c.user_id).where(user_groups.c.name == criteria.group)
        conditions.append(users.c.id.in_(members))
    if criteria.status is not None:
        conditions.append(users.c.status == criteria.status)
    if criteria.email is not None:
        conditions.append(users.c.email == fold_name(criteria.email))
    if criteria.name is not None:
        conditions.append(users.c.name == criteria.name)
    if criteria.external_id is not None:
        conditions.append(users.c.external_id == criteria.external_id)
    if criteria.user_name is not None:
        coalesce = func.coalesce(users.c.user_name, users.c.email)
        conditions.append(func.lower(coalesce) == func.lower(criteria.user_name))
    return conditions


@contextmanager
def taken_as_conflict(field: str, value: str) -> Iterator[None]:
    """Turn a violated constraint into the Conflict that it means."""
    try:
        yield
    except IntegrityError:
        raise Conflict(f"{field}: {value!r} is already in use; choose another", field=field) from None

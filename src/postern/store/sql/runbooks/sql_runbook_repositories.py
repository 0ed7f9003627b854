"""Repositories with runbooks, their credentials sealed; and what was read of each, packed and sealed."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import zstandard
from sqlalchemy import ColumnElement, and_, case, delete, insert, literal, null, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from postern.domain.runbook import Fetched, Repository, RunbookFile, Snapshot
from postern.domain.secret import Secret
from postern.errors import Conflict, Invalid, Malformed, Misconfigured, NotFound, TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.runbook_ports import Outline, RepositoryHooks
from postern.store.prepared import Row
from postern.store.schema.runbook_tables import runbook_repositories as repositories
from postern.store.schema.runbook_tables import runbook_snapshots as snapshots
from postern.store.sql.locking import one_at_a_time
from postern.store.sql.rows import count_of

log = logging.getLogger(__name__)

MAX_SNAPSHOT = 32_000_000  # bytes, unpacked
_MAX_ERROR = 500  # characters
_PLAIN = (
    *("git_url", "name", "git_user", "ssh_user", "ssh_known_hosts"),
    *("branch", "hook_ttl", "created_at", "updated_at"),
)
_SECRETS = ("git_password", "ssh_key", "ssh_keypass")
_OF_COMMIT, _OF_FILE = ("commit", "author", "message", "hooks"), ("path", "text", "error")
_REPLACED = ("content", "hooks", "commit_id", "fetched_at")
# What was read by other settings than it has now is as if it had not been read.
_CURRENT = and_(
    snapshots.c.org_id == repositories.c.org_id,
    snapshots.c.repository_id == repositories.c.id,
    snapshots.c.settings_at == repositories.c.updated_at,
)


class SqlRepositories:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def all(self, org_id: UUID) -> list[Repository]:
        wanted = select(*repositories.c).where(repositories.c.org_id == org_id).order_by(repositories.c.name)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
        return [await self._opened(row) for row in rows]

    async def get(self, org_id: UUID, repository_id: UUID) -> Repository | None:
        async with self._database.statement() as connection:
            found = await connection.execute(select(*repositories.c).where(*_this(org_id, repository_id)))
            row = found.mappings().one_or_none()
        return None if row is None else await self._opened(row)

    async def due(self, before: datetime, most: int, *, failing: bool) -> list[Repository]:
        tried, error = snapshots.c.tried_at, snapshots.c.error
        group = error != "" if failing else or_(error.is_(None), error == "")
        wanted = (
            select(*repositories.c)
            .select_from(repositories.outerjoin(snapshots, _CURRENT))
            .where(or_(tried.is_(None), tried < before), group)
            .order_by(tried.asc().nulls_first(), repositories.c.org_id, repositories.c.id)
        )
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted.limit(most))).mappings().all()
        found = []
        for row in rows:
            try:
                found.append(await self._opened(row))
            except Misconfigured as problem:
                log.warning("runbooks of %s are not read: %s", row["name"], problem)
        return found

    async def add(self, repository: Repository, most: int) -> None:
        values = await self._values(repository)
        own = repositories.c.org_id == repository.org_id
        try:
            async with self._database.transaction() as transaction:
                await one_at_a_time(transaction)
                if (await transaction.execute(count_of(repositories, own))).scalar_one() >= most:
                    raise TooMany(f"an organisation may have {most} repositories; remove one first")
                await transaction.execute(insert(repositories).values(values))
        except IntegrityError:
            raise Conflict(f"git_url: there is a repository {repository.name} already", field="git_url") from None

    async def update(self, repository: Repository, read: Repository | None = None) -> None:
        values = await self._values(repository)
        this = _this(repository.org_id, repository.id)
        same = this if read is None else (*this, repositories.c.updated_at == read.updated_at)
        async with self._database.transaction() as transaction:
            if (await transaction.execute(update(repositories).where(*same).values(values))).rowcount == 1:
                return
            if (await transaction.execute(select(repositories.c.id).where(*this))).one_or_none() is not None:
                raise _changed_meanwhile()
        raise NotFound(f"there is no repository {repository.name} any more")

    async def replace(
        self, org_id: UUID, repositories_: Sequence[Repository], read: Sequence[Repository] | None = None
    ) -> None:
        rows = [await self._values(repository) for repository in repositories_]
        kept = [repository.id for repository in repositories_]
        try:
            async with self._database.transaction() as transaction:
                await one_at_a_time(transaction)
                own = repositories.c.org_id == org_id
                there = select(repositories.c.id, repositories.c.updated_at).where(own).with_for_update()
                known = {row.id: row.updated_at for row in await transaction.execute(there)}
                if read is not None and known != {one.id: one.updated_at for one in read}:
                    raise _changed_meanwhile()
                await transaction.execute(delete(repositories).where(own, repositories.c.id.not_in(kept)))
                for row in rows:
                    this = _this(org_id, row["id"])
                    changed = update(repositories).where(*this) if row["id"] in known else insert(repositories)
                    await transaction.execute(changed.values(row))
        except IntegrityError:
            raise Conflict("repositories: two of them are the same", field="repositories") from None

    async def remove(self, org_id: UUID, repository_id: UUID) -> bool:
        async with self._database.statement() as connection:
            done = await connection.execute(delete(repositories).where(*_this(org_id, repository_id)))
        return done.rowcount == 1

    async def _values(self, repository: Repository) -> dict[str, Any]:
        clear = json.dumps({name: getattr(repository, name).reveal() for name in _SECRETS})
        row = _secrets_row(repository.org_id, repository.id)
        sealed = await self._encryption.seal(clear.encode(), row=row, org_id=repository.org_id)
        plain = {name: getattr(repository, name) for name in _PLAIN}
        return {"org_id": repository.org_id, "id": repository.id, "secrets": sealed, **plain}

    async def _opened(self, row: Row) -> Repository:
        opened = await self._encryption.open(
            row["secrets"], row=_secrets_row(row["org_id"], row["id"]), org_id=row["org_id"]
        )
        fields: dict[str, Any] = {name: row[name] for name in _PLAIN}
        fields |= {name: Secret(value) for name, value in json.loads(opened).items()}
        return Repository(row["org_id"], **fields)


class SqlSnapshots:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def outlines(self, org_id: UUID) -> list[Outline]:
        wanted = (
            select(
                *(repositories.c[name] for name in ("id", "name", "git_url", "hook_ttl")),
                repositories.c.updated_at.label("settings_at"),
                snapshots.c.commit_id.label("commit"),
                *(snapshots.c[name] for name in ("fetched_at", "tried_at", "error")),
            )
            .select_from(repositories.outerjoin(snapshots, _CURRENT))
            .where(repositories.c.org_id == org_id)
            .order_by(repositories.c.name)
        )
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
        return [Outline(**{**row, "error": row["error"] or ""}) for row in rows]

    async def get(self, org_id: UUID, repository_id: UUID) -> Fetched | None:
        wanted = select(*snapshots.c).select_from(snapshots.join(repositories, _CURRENT))
        async with self._database.statement() as connection:
            found = await connection.execute(wanted.where(*_this(org_id, repository_id)))
            row = found.mappings().one_or_none()
        if row is None:
            return None
        snapshot = None
        if row["content"] is not None:
            name = _content_row(org_id, repository_id)
            packed = await self._encryption.open(row["content"], row=name, org_id=org_id)
            snapshot = await asyncio.to_thread(_unpacked, packed)
        return Fetched(snapshot, row["fetched_at"], row["tried_at"], row["settings_at"], row["error"])

    async def hooks(self, org_id: UUID) -> list[RepositoryHooks]:
        wanted = (
            select(
                *(repositories.c[name] for name in ("id", "name", "hook_ttl")), snapshots.c.commit_id, snapshots.c.hooks
            )
            .select_from(repositories.outerjoin(snapshots, _CURRENT))
            .where(repositories.c.org_id == org_id, repositories.c.hook_ttl > 0)
            .order_by(repositories.c.name)
        )
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted)).mappings().all()
        return [
            RepositoryHooks(row["name"], row["hook_ttl"], row["commit_id"] or "", await self._hooks(org_id, row))
            for row in rows
        ]

    async def _hooks(self, org_id: UUID, row: Row) -> dict[str, str]:
        """None where they cannot be opened, or are of another commit than the row says."""
        if not row["hooks"]:
            return {}
        try:
            clear = await self._encryption.open(row["hooks"], row=_hooks_row(org_id, row["id"]), org_id=org_id)
        except Misconfigured as problem:
            log.warning("hooks of %s do not run: %s", row["name"], problem)
            return {}
        commit, texts = _unpacked_hooks(clear)
        if commit != row["commit_id"]:
            log.warning("hooks of %s do not run: they are of another commit than its row says", row["name"])
            return {}
        return texts

    async def put(
        self, org_id: UUID, repository_id: UUID, snapshot: Snapshot, settings_at: datetime, at: datetime
    ) -> bool:
        packed = await asyncio.to_thread(_packed, snapshot)
        sealed = await self._encryption.seal(packed, row=_content_row(org_id, repository_id), org_id=org_id)
        hooks = b""
        if snapshot.hooks:
            told = _packed_hooks(snapshot)
            hooks = await self._encryption.seal(told, row=_hooks_row(org_id, repository_id), org_id=org_id)
        values = {"content": sealed, "hooks": hooks, "commit_id": snapshot.commit, "fetched_at": at, "error": ""}
        return await self._tried(org_id, repository_id, values, settings_at, at)

    async def failed(self, org_id: UUID, repository_id: UUID, error: str, settings_at: datetime, at: datetime) -> None:
        text = "".join(one if one.isprintable() else " " for one in error[:_MAX_ERROR])
        await self._tried(org_id, repository_id, {**dict.fromkeys(_REPLACED), "error": text}, settings_at, at)

    async def _tried(
        self, org_id: UUID, repository_id: UUID, values: dict[str, Any], settings_at: datetime, at: datetime
    ) -> bool:
        """One statement, so that a repository that is removed meanwhile has nothing left behind it. `None` stands for
        what stays as it is, unless it was read by other settings."""
        row = {**values, "tried_at": at, "settings_at": settings_at}
        columns: list[ColumnElement[Any]] = [
            null() if value is None else literal(value, snapshots.c[name].type) for name, value in row.items()
        ]
        source = select(repositories.c.org_id, repositories.c.id, *columns).where(
            *_this(org_id, repository_id), repositories.c.updated_at == settings_at
        )
        engine = sqlite if self._database.is_sqlite else postgresql
        made = engine.insert(snapshots).from_select(["org_id", "repository_id", *row], source)
        same = snapshots.c.settings_at == made.excluded.settings_at
        changes = {
            name: case((same, snapshots.c[name]), else_=null()) if value is None else made.excluded[name]
            for name, value in row.items()
        }
        newer = or_(~same, snapshots.c.tried_at <= made.excluded.tried_at)
        kept = made.on_conflict_do_update(index_elements=["org_id", "repository_id"], set_=changes, where=newer)
        try:
            async with self._database.statement() as connection:
                return (await connection.execute(kept)).rowcount == 1
        except IntegrityError:  # removed at this very moment
            return False


def _changed_meanwhile() -> Conflict:
    """What was left out in a change, secrets as well, was filled in from what is there no more."""
    return Conflict("repositories: they were changed meanwhile; look at them, and try again", field="repositories")


def _this(org_id: UUID, repository_id: UUID) -> tuple[ColumnElement[bool], ...]:
    return repositories.c.org_id == org_id, repositories.c.id == repository_id


def _secrets_row(org_id: UUID, repository_id: UUID) -> str:
    return f"runbook_repositories/{org_id}/{repository_id}"


def _content_row(org_id: UUID, repository_id: UUID) -> str:
    return f"runbook_snapshots/{org_id}/{repository_id}"


def _hooks_row(org_id: UUID, repository_id: UUID) -> str:
    return f"runbook_hooks/{org_id}/{repository_id}"


def _packed(snapshot: Snapshot) -> bytes:
    """A line of JSON for the commit and for each file: one of all would hold up every thread while it is read."""
    about = {name: getattr(snapshot, name) for name in _OF_COMMIT}
    files = [[getattr(one, name) for name in _OF_FILE] for one in snapshot.files]
    text = "\n".join(map(json.dumps, [about, *files])).encode()
    if len(text) > MAX_SNAPSHOT:
        raise Invalid(f"its runbooks have more than {MAX_SNAPSHOT // 1_000_000} MB together; keep fewer in it")
    return zstandard.ZstdCompressor(write_content_size=True).compress(text)


def _packed_hooks(snapshot: Snapshot) -> bytes:
    """A line of JSON, and the texts as they are: workers read them on the event loop of their sessions, where JSON of
    as many line ends as a hook may have takes hundreds of times as long."""
    texts = {name: text.encode() for name, text in snapshot.hooks.items()}
    about = {"commit": snapshot.commit, "bytes": {name: len(text) for name, text in texts.items()}}
    return json.dumps(about).encode() + b"\n" + b"".join(texts.values())


def _unpacked_hooks(clear: bytes) -> tuple[str, dict[str, str]]:
    """The commit, and its hooks."""
    about, _, rest = clear.partition(b"\n")
    told, texts = json.loads(about), {}
    for name, size in told.get("bytes", {}).items():
        texts[name], rest = rest[:size].decode(), rest[size:]
    return told["commit"], texts


def _unpacked(packed: bytes) -> Snapshot:
    try:
        size = zstandard.get_frame_parameters(packed).content_size
        if size > MAX_SNAPSHOT:
            raise ValueError(f"{size} bytes")
        about, *files = zstandard.ZstdDecompressor().decompress(packed).split(b"\n")
        return Snapshot(**json.loads(about), files=tuple(RunbookFile(*json.loads(one)) for one in files))
    except (zstandard.ZstdError, ValueError, TypeError, KeyError) as error:
        raise Malformed(f"what was kept of this repository cannot be read: {error}; read it again") from error

"""Repositories with runbooks, their credentials sealed; and the snapshot of each, packed and sealed."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import zstandard
from sqlalchemy import ColumnElement, Select, and_, case, delete, func, insert, literal, null, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from postern.domain.runbook import (
    MAX_REPOSITORIES,
    REPOSITORY_SECRETS,
    Fetched,
    Repository,
    RunbookFile,
    Snapshot,
)
from postern.domain.secret import Secret
from postern.errors import Conflict, Invalid, Malformed, Misconfigured, TooMany
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.runbook_ports import Outline, RepositoryHooks
from postern.store.prepared import Row
from postern.store.schema.runbook_tables import runbook_repositories as repositories
from postern.store.schema.runbook_tables import runbook_snapshots as snapshots
from postern.store.sql.locking import one_at_a_time
from postern.store.sql.resource_table import CHANGED_MEANWHILE, ResourceTable

log = logging.getLogger(__name__)

MAX_SNAPSHOT = 32_000_000  # bytes, unpacked
_MAX_ERROR = 500  # characters
_PLAIN = ("git_url", "name", "git_user", "ssh_user", "ssh_known_hosts", "branch", "hook_ttl", "updated_at")
_READ = ("org_id", "created_at", "managed_by", "version", "commit", "fetched_at", "tried_at", "error")
_OF_COMMIT, _OF_FILE = ("commit", "author", "message", "hooks"), ("path", "text", "error")
_REPLACED = ("content", "hooks", "commit_id", "fetched_at")
# What was read by other settings than it has now is as if it had not been read.
_CURRENT = and_(
    snapshots.c.org_id == repositories.c.org_id,
    snapshots.c.repository_id == repositories.c.id,
    snapshots.c.settings_at == repositories.c.updated_at,
)


class SqlRepositories(ResourceTable[Repository]):
    table, noun = repositories, "repository"
    most, full = MAX_REPOSITORIES, TooMany

    def __init__(self, database: Database, encryption: Encryption) -> None:
        super().__init__(database)
        self._encryption = encryption

    def select_rows(self) -> Select[Any]:
        read = (
            snapshots.c.commit_id.label("commit"),
            *(snapshots.c.fetched_at, snapshots.c.tried_at),
            func.coalesce(snapshots.c.error, "").label("error"),
        )
        return select(*repositories.c, *read).select_from(repositories.outerjoin(snapshots, _CURRENT))

    async def due(self, before: datetime, most: int, *, failing: bool) -> list[Repository]:
        tried, error = snapshots.c.tried_at, snapshots.c.error
        group = error != "" if failing else or_(error.is_(None), error == "")
        query = (
            self.select_rows()
            .where(or_(tried.is_(None), tried < before), group)
            .order_by(tried.asc().nulls_first(), repositories.c.org_id, repositories.c.id)
        )
        async with self._database.statement() as connection:
            rows = (await connection.execute(query.limit(most))).mappings().all()
        found_repositories = []
        for row in rows:
            try:
                found_repositories.append(await self.read(row))
            except Misconfigured as problem:
                log.warning("a repository is not fetched: repository=%s error=%s", row["name"], problem)
        return found_repositories

    async def replace_all(self, org_id: UUID, requested: Sequence[Repository], read: Sequence[Repository]) -> None:
        condition, before = repositories.c.org_id == org_id, {repository.id: repository for repository in read}
        new = [await self.new_row(repository) for repository in requested if repository.id not in before]
        other = [
            (repository, await self.values(repository))
            for repository in requested
            if repository.id in before and repository != before[repository.id]
        ]
        try:
            async with self._database.transaction() as transaction:
                await one_at_a_time(transaction)
                there = select(repositories.c.id, repositories.c.version).where(condition).with_for_update()
                versions = {row.id: row.version for row in await transaction.execute(there)}
                if versions != {repository.id: repository.version for repository in read}:
                    raise Conflict(f"repositories: one of them {CHANGED_MEANWHILE}", field="repositories")
                stored_ids = [repository.id for repository in requested]
                await transaction.execute(delete(repositories).where(condition, repositories.c.id.not_in(stored_ids)))
                for repository, values in other:
                    changed = update(repositories).where(*_this(org_id, repository.id))
                    await transaction.execute(changed.values(values | {"version": repository.version + 1}))
                if new:
                    await transaction.execute(insert(repositories), new)
        except IntegrityError:
            raise Conflict("repositories: two of them have the same address", field="repositories") from None

    def conflict_message(self, resource: Repository) -> str:
        return f"git_url: a repository {resource.name!r} exists already, possibly with a different address"

    async def values(self, resource: Repository) -> dict[str, Any]:
        clear = json.dumps({name: getattr(resource, name).reveal() for name in REPOSITORY_SECRETS})
        row = _secrets_row(resource.org_id, resource.id)
        sealed = await self._encryption.seal(clear.encode(), row=row, org_id=resource.org_id)
        return {"secrets": sealed} | {name: getattr(resource, name) for name in _PLAIN}

    async def read(self, row: Row) -> Repository:
        opened = await self._encryption.open(
            row["secrets"], row=_secrets_row(row["org_id"], row["id"]), org_id=row["org_id"]
        )
        fields: dict[str, Any] = {name: row[name] for name in (*_PLAIN, *_READ)}
        fields |= {name: Secret(value) for name, value in json.loads(opened).items()}
        return Repository(**fields)


class SqlSnapshots:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def outlines(self, org_id: UUID) -> list[Outline]:
        query = (
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
            rows = (await connection.execute(query)).mappings().all()
        return [Outline(**{**row, "error": row["error"] or ""}) for row in rows]

    async def get(self, org_id: UUID, repository_id: UUID) -> Fetched | None:
        query = select(*snapshots.c).select_from(snapshots.join(repositories, _CURRENT))
        async with self._database.statement() as connection:
            result = await connection.execute(query.where(*_this(org_id, repository_id)))
            row = result.mappings().one_or_none()
        if row is None:
            return None
        snapshot = None
        if row["content"] is not None:
            name = _content_row(org_id, repository_id)
            packed = await self._encryption.open(row["content"], row=name, org_id=org_id)
            snapshot = await asyncio.to_thread(_unpack_snapshot, packed)
        return Fetched(snapshot, row["fetched_at"], row["tried_at"], row["settings_at"], row["error"])

    async def hooks(self, org_id: UUID) -> list[RepositoryHooks]:
        query = (
            select(
                *(repositories.c[name] for name in ("id", "name", "hook_ttl")), snapshots.c.commit_id, snapshots.c.hooks
            )
            .select_from(repositories.outerjoin(snapshots, _CURRENT))
            .where(repositories.c.org_id == org_id, repositories.c.hook_ttl > 0)
            .order_by(repositories.c.name)
        )
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [
            RepositoryHooks(row["name"], row["hook_ttl"], row["commit_id"] or "", await self._hooks(org_id, row))
            for row in rows
        ]

    async def _hooks(self, org_id: UUID, row: Row) -> dict[str, str]:
        """Return the hooks; none if they cannot be decrypted, or their commit is not the one of the row."""
        if not row["hooks"]:
            return {}
        try:
            clear = await self._encryption.open(row["hooks"], row=_hooks_row(org_id, row["id"]), org_id=org_id)
        except Misconfigured as problem:
            log.warning("the hooks of a repository do not run: repository=%s error=%s", row["name"], problem)
            return {}
        commit, texts = _unpacked_hooks(clear)
        if commit != row["commit_id"]:
            log.warning(
                "the hooks of a repository do not run: their commit is not its current one: repository=%s", row["name"]
            )
            return {}
        return texts

    async def put(
        self, org_id: UUID, repository_id: UUID, snapshot: Snapshot, settings_at: datetime, at: datetime
    ) -> bool:
        packed = await asyncio.to_thread(_pack_snapshot, snapshot)
        sealed = await self._encryption.seal(packed, row=_content_row(org_id, repository_id), org_id=org_id)
        hooks = b""
        if snapshot.hooks:
            data = _packed_hooks(snapshot)
            hooks = await self._encryption.seal(data, row=_hooks_row(org_id, repository_id), org_id=org_id)
        values = {"content": sealed, "hooks": hooks, "commit_id": snapshot.commit, "fetched_at": at, "error": ""}
        return await self._store_attempt(org_id, repository_id, values, settings_at, at)

    async def mark_failed(
        self, org_id: UUID, repository_id: UUID, error: str, settings_at: datetime, at: datetime
    ) -> None:
        text = "".join(character if character.isprintable() else " " for character in error[:_MAX_ERROR])
        await self._store_attempt(org_id, repository_id, {**dict.fromkeys(_REPLACED), "error": text}, settings_at, at)

    async def _store_attempt(
        self, org_id: UUID, repository_id: UUID, values: dict[str, Any], settings_at: datetime, at: datetime
    ) -> bool:
        """Store a result in one statement, so that nothing remains of a repository that is removed meanwhile.

        `None` keeps a value, unless it was read under other settings.
        """
        row = {**values, "tried_at": at, "settings_at": settings_at}
        columns: list[ColumnElement[Any]] = [
            null() if value is None else literal(value, snapshots.c[name].type) for name, value in row.items()
        ]
        source = select(repositories.c.org_id, repositories.c.id, *columns).where(
            *_this(org_id, repository_id), repositories.c.updated_at == settings_at
        )
        engine = sqlite if self._database.is_sqlite else postgresql
        insertion = engine.insert(snapshots).from_select(["org_id", "repository_id", *row], source)
        same = snapshots.c.settings_at == insertion.excluded.settings_at
        changes = {
            name: case((same, snapshots.c[name]), else_=null()) if value is None else insertion.excluded[name]
            for name, value in row.items()
        }
        newer = or_(~same, snapshots.c.tried_at <= insertion.excluded.tried_at)
        upsert = insertion.on_conflict_do_update(index_elements=["org_id", "repository_id"], set_=changes, where=newer)
        try:
            async with self._database.statement() as connection:
                return (await connection.execute(upsert)).rowcount == 1
        except IntegrityError:  # removed at this very moment
            return False


def _this(org_id: UUID, repository_id: UUID) -> tuple[ColumnElement[bool], ...]:
    return repositories.c.org_id == org_id, repositories.c.id == repository_id


def _secrets_row(org_id: UUID, repository_id: UUID) -> str:
    return f"runbook_repositories/{org_id}/{repository_id}"


def _content_row(org_id: UUID, repository_id: UUID) -> str:
    return f"runbook_snapshots/{org_id}/{repository_id}"


def _hooks_row(org_id: UUID, repository_id: UUID) -> str:
    return f"runbook_hooks/{org_id}/{repository_id}"


def _pack_snapshot(snapshot: Snapshot) -> bytes:
    """Return a line of JSON for the commit and for each file: parsing a single one would block every thread."""
    about = {name: getattr(snapshot, name) for name in _OF_COMMIT}
    files = [[getattr(file, name) for name in _OF_FILE] for file in snapshot.files]
    text = "\n".join(map(json.dumps, [about, *files])).encode()
    if len(text) > MAX_SNAPSHOT:
        raise Invalid(
            f"its runbooks are larger than {MAX_SNAPSHOT // 1_000_000} MB in total; move some to another repository"
        )
    return zstandard.ZstdCompressor(write_content_size=True).compress(text)


def _packed_hooks(snapshot: Snapshot) -> bytes:
    """Return a line of JSON, and the texts as they are.

    Workers read them on the event loop of their sessions, where JSON with as many line ends as a hook may have takes
    hundreds of times as long.
    """
    texts = {name: text.encode() for name, text in snapshot.hooks.items()}
    about = {"commit": snapshot.commit, "bytes": {name: len(text) for name, text in texts.items()}}
    return json.dumps(about).encode() + b"\n" + b"".join(texts.values())


def _unpacked_hooks(clear: bytes) -> tuple[str, dict[str, str]]:
    """Return the commit, and its hooks."""
    about, _, rest = clear.partition(b"\n")
    commit_facts, texts = json.loads(about), {}
    for name, size in commit_facts.get("bytes", {}).items():
        texts[name], rest = rest[:size].decode(), rest[size:]
    return commit_facts["commit"], texts


def _unpack_snapshot(packed: bytes) -> Snapshot:
    try:
        size = zstandard.get_frame_parameters(packed).content_size
        if size > MAX_SNAPSHOT:
            raise ValueError(f"{size} bytes")
        about, *files = zstandard.ZstdDecompressor().decompress(packed).split(b"\n")
        return Snapshot(**json.loads(about), files=tuple(RunbookFile(*json.loads(line)) for line in files))
    except (zstandard.ZstdError, ValueError, TypeError, KeyError) as error:
        raise Malformed(
            f"the stored copy of this repository cannot be read: {error}; read it again with "
            "`postern admin runbook-repositories refresh`"
        ) from error

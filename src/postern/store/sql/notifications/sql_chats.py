"""Messages in chats, and linked chat accounts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Any
from uuid import UUID

from sqlalchemy import Connection, Select, Table, delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from postern.domain.chat import ChatLink, ChatMessage
from postern.domain.lists import Listed, Page
from postern.domain.sink import Sink
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.schema.identity_tables import users
from postern.store.schema.server_tables import chat_links, chat_messages, sinks
from postern.store.sql.notifications.sql_sinks import sink_of
from postern.store.sql.rows import count_of


class SqlChats:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def sink(self, sink_id: UUID) -> Sink | None:
        async with self._database.statement() as connection:
            result = await connection.execute(select(*sinks.c).where(sinks.c.id == sink_id))
            row = result.mappings().one_or_none()
        return None if row is None else await sink_of(row, self._encryption)

    async def message(self, sink_id: UUID, review_id: UUID) -> ChatMessage | None:
        condition = (chat_messages.c.sink_id == sink_id, chat_messages.c.review_id == review_id)
        async with self._database.statement() as connection:
            result = await connection.execute(select(*chat_messages.c).where(*condition))
            row = result.mappings().one_or_none()
        return None if row is None else ChatMessage(**row)

    async def keep(self, message: ChatMessage) -> None:
        values = asdict(message)
        changes = {name: values[name] for name in ("channel", "reference", "at")}

        def work(connection: Connection) -> None:
            query = _insert(connection, chat_messages).values(values)
            connection.execute(query.on_conflict_do_update(index_elements=["sink_id", "review_id"], set_=changes))

        with suppress(IntegrityError):  # the sink or the review is gone
            await self._database.together(work)

    async def link(self, org_id: UUID, realm: str, chat_id: str) -> ChatLink | None:
        condition = (chat_links.c.org_id == org_id, chat_links.c.realm == realm, chat_links.c.chat_id == chat_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(_links().where(*condition))).mappings().one_or_none()
        return None if row is None else ChatLink(**row)

    async def links(self, org_id: UUID, principal_id: UUID | None, page: Page) -> Listed[ChatLink]:
        conditions = [chat_links.c.org_id == org_id]
        if principal_id is not None:
            conditions.append(chat_links.c.principal_id == principal_id)
        query = _links().where(*conditions).order_by(chat_links.c.created_at.desc(), chat_links.c.id)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query.limit(page.limit).offset(page.offset))).mappings().all()
            total = (await connection.execute(count_of(chat_links, *conditions))).scalar_one()
        return Listed([ChatLink(**row) for row in rows], total)

    async def add_link(self, link: ChatLink) -> None:
        values = {name: value for name, value in asdict(link).items() if name != "email"}
        changes = {name: values[name] for name in ("id", "principal_id", "created_at")}

        def work(connection: Connection) -> None:
            query = _insert(connection, chat_links).values(values)
            connection.execute(query.on_conflict_do_update(index_elements=["org_id", "realm", "chat_id"], set_=changes))

        await self._database.together(work)

    async def remove_link(self, org_id: UUID, link_id: UUID, principal_id: UUID | None) -> ChatLink | None:
        conditions = [chat_links.c.org_id == org_id, chat_links.c.id == link_id]
        if principal_id is not None:
            conditions.append(chat_links.c.principal_id == principal_id)

        def work(connection: Connection) -> ChatLink | None:
            row = connection.execute(_links().where(*conditions)).mappings().one_or_none()
            connection.execute(delete(chat_links).where(*conditions))
            return None if row is None else ChatLink(**row)

        return await self._database.together(work)


def _links() -> Select[Any]:
    return select(*chat_links.c, users.c.email).join(users, users.c.id == chat_links.c.principal_id)


def _insert(connection: Connection, table: Table) -> Any:
    return (sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert)(table)

"""The ports of `store.ports` on SQLAlchemy Core: one file per port, one code for SQLite and PostgreSQL."""

from __future__ import annotations

from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.sql.access import SqlAccess
from postern.store.sql.agents import SqlAgents
from postern.store.sql.audit import SqlAudit
from postern.store.sql.connections import SqlConnections
from postern.store.sql.credentials import SqlCredentials
from postern.store.sql.guardrails import SqlGuardRails
from postern.store.sql.keys import SqlKeys
from postern.store.sql.principals import SqlPrincipals
from postern.store.sql.sessions import SqlSessions


class SqlStores:
    """All stores over one database."""

    def __init__(self, database: Database, encryption: Encryption) -> None:
        self.access = SqlAccess(database, encryption)
        self.agents = SqlAgents(database)
        self.audit = SqlAudit(database)
        self.connections = SqlConnections(database, encryption)
        self.credentials = SqlCredentials(database)
        self.guardrails = SqlGuardRails(database)
        self.keys = SqlKeys(database, encryption)
        self.principals = SqlPrincipals(database)
        self.sessions = SqlSessions(database)

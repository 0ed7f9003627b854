"""PostgreSQL's connection URI, by the rules of libpq (its documentation, "Connection URIs")."""

from __future__ import annotations

from typing import Final

from postern.protocols.protocol_database_uri import DatabaseUri

URI: Final = DatabaseUri(
    "postgres",
    "postgres(?:ql)?",
    5432,
    frozenset(
        {
            *("application_name", "fallback_application_name", "client_encoding", "connect_timeout"),
            *("tcp_user_timeout", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
            *("sslsni", "sslcompression"),
        }
    ),
    user_database=True,
)

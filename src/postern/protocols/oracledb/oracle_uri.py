"""The URI of an Oracle database. No one defines it: SQLAlchemy's form is known here, with the service name as path."""

from __future__ import annotations

from typing import Final

from postern.protocols.protocol_database_uri import DatabaseUri

URI: Final = DatabaseUri(
    "oracledb",
    r"(?:oracle|oracledb)(?:\+[a-z0-9_]+)?",
    1521,
    frozenset(
        {
            *("encoding", "nencoding", "threaded", "events", "arraysize", "mode", "pooling", "connect_timeout"),
            *("transport_connect_timeout", "retry_count", "retry_delay", "expire_time", "stmtcachesize", "autocommit"),
        }
    ),
    names={
        **dict.fromkeys(("ssl", "sslmode"), "sslmode"),
        **dict.fromkeys(("sslrootcert", "cafile"), "sslrootcert"),
    },
    keys={"native_encryption": "NATIVE_ENCRYPTION", "sid": "SID"},
    mode_with_root="verify-full",
)

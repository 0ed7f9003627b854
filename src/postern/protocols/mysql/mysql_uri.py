"""The URI of a MySQL or MariaDB database. Only MySQL Shell defines rules ("Connecting to the Server Using URI-Like
Strings"); other drivers spell settings differently, and these spellings are known here."""

from __future__ import annotations

from typing import Final

from postern.protocols.protocol_database_uri import DatabaseUri

URI: Final = DatabaseUri(
    "mysql",
    r"(?:mysql|mariadb|mysql2)(?:\+[a-z0-9]+)?",  # Rails' mysql2://, SQLAlchemy's mysql+pymysql://
    3306,
    frozenset(
        {
            *("charset", "encoding", "collation", "character_set", "use_unicode", "time_zone", "timezone"),
            *("connect_timeout", "connection_timeout", "read_timeout", "write_timeout", "timeout", "pool", "reconnect"),
            *("pool_size", "pool_timeout", "connection_limit", "compression", "autocommit", "serverversion"),
        }
    ),
    names={
        **dict.fromkeys(("ssl-mode", "ssl_mode"), "sslmode"),
        **dict.fromkeys(("ssl-ca", "ssl_ca", "sslca"), "sslrootcert"),
    },
    modes={
        "disabled": "disable",
        "preferred": "prefer",
        "required": "require",
        "verify_ca": "verify-ca",
        "verify_identity": "verify-full",
    },
    mode_with_root="verify-ca",
)

"""The URI of an SQL Server database. No one defines it: SQLAlchemy's form is known here, and the names that ADO.NET and
ODBC have for its settings."""

from __future__ import annotations

from typing import Final

from postern.protocols.protocol_database_uri import DatabaseUri

URI: Final = DatabaseUri(
    "mssql",
    r"(?:mssql|sqlserver|tds)(?:\+[a-z0-9_]+)?",
    1433,
    frozenset(
        {
            *("driver", "charset", "timeout", "login_timeout", "connection timeout", "connect timeout", "app name"),
            *("application name", "appname", "packet size", "packetsize", "multipleactiveresultsets", "autocommit"),
            *("applicationintent", "tds_version", "workstation id", "multisubnetfailover", "pooling"),
        }
    ),
    names={
        **dict.fromkeys(("encrypt", "ssl", "sslmode"), "sslmode"),
        **dict.fromkeys(("sslrootcert", "servercertificate", "cafile"), "sslrootcert"),
        "trustservercertificate": "trustservercertificate",
    },
    modes={
        **dict.fromkeys(("no", "false", "optional", "disable"), "disable"),
        **dict.fromkeys(("yes", "true", "mandatory", "verify-full"), "verify-full"),
        "prefer": "prefer",
        "require": "require",
        "verify-ca": "verify-ca",
    },
    mode_with_root="verify-full",
)

"""The server as a process: `python -m tests.support.mssql.sqlserver_program SETTINGS`, which is a file of JSON.

It prints its port.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

from tests.support.mssql.engine_session import DATABASE_SCRIPT
from tests.support.mssql.sqlserver_connection import SqlServerSettings, TdsConnection


def tls_context(certificate: str, key: str, *, strict: bool) -> ssl.SSLContext:
    """TLS inside packets is at most 1.2: later versions send tickets when packets have ended."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if strict:
        context.set_alpn_protocols(["tds/8.0"])
    else:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_TICKET
    return context


def read_settings(said: dict[str, Any]) -> SqlServerSettings:
    settings = SqlServerSettings(Path(said["folder"]), said["users"], said["database"])
    if said.get("certificate"):
        settings.tls = tls_context(said["certificate"], said["key"], strict=False)
        settings.strict_tls = tls_context(said["certificate"], said["key"], strict=True)
    settings.encryption = said.get("encryption", settings.encryption)
    settings.routed = tuple(said["routed"]) if said.get("routed") else None
    settings.log = Path(said["log"]) if said.get("log") else None
    return settings


def create_databases(settings: SqlServerSettings) -> None:
    for name in ("master", "tempdb", "model", "msdb", settings.database):
        with sqlite3.connect(settings.folder / f"{name}.db") as connection:
            connection.executescript(DATABASE_SCRIPT.format(name="main"))
        connection.close()


def main(path: str) -> None:
    settings = read_settings(json.loads(Path(path).read_text()))
    create_databases(settings)
    listener = socket.create_server(("127.0.0.1", json.loads(Path(path).read_text()).get("port", 0)), backlog=128)
    print(listener.getsockname()[1], flush=True)
    number = 50
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number += 1
        threading.Thread(target=TdsConnection(settings, connection, number).serve, daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1])

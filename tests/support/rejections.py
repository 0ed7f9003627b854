"""What clients of each protocol are told when a worker takes no more of them."""

from __future__ import annotations

import socket
import ssl
import subprocess

import oracledb
import pymysql
import pytest
from tests.support import wire
from tests.support.protocols import mongodb_test_messages

from postern.settings import Settings


def rejected_by_postgres(settings: Settings) -> str:
    """The error that a PostgreSQL client gets, field by field."""
    with wire.connect(settings.postgres_port) as stream:
        stream.sendall(wire.startup(user="anybody"))
        return wire.closed_by_peer(stream).decode(errors="replace")


def rejected_by_mysql(settings: Settings) -> str:
    with pytest.raises(pymysql.OperationalError) as raised:
        pymysql.connect(host="127.0.0.1", port=settings.mysql_port, user="anybody", password="x")
    return f"{raised.value.args[0]} {raised.value.args[1]}"


def rejected_by_mongodb(settings: Settings) -> str:
    """The reply to a client's hello, whose documents hold their texts as they are."""
    with wire.connect(settings.mongodb_port) as stream:
        stream.sendall(mongodb_test_messages.command("hello", db="admin"))
        return wire.closed_by_peer(stream).decode(errors="replace")


def rejected_by_oracle(settings: Settings) -> str:
    with pytest.raises(oracledb.DatabaseError) as raised:
        oracledb.connect(user="anybody", password="x", dsn=f"127.0.0.1:{settings.oracledb_port}/orders")
    return str(raised.value)


def rejected_by_ssh(settings: Settings) -> str:
    asked = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes")
    port = str(settings.ssh_port)
    done = subprocess.run(["ssh", *asked, "-p", port, "anybody@127.0.0.1", "true"], capture_output=True, timeout=60)
    assert done.returncode == 255
    return done.stderr.decode()


def rejected_by_tunnel(settings: Settings) -> str:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", settings.tunnel_port)) as plain,
        context.wrap_socket(plain) as stream,
    ):
        stream.sendall(
            b"GET /tunnel HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Authorization: Bearer x\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        return stream.recv(4096).decode()


# By protocol: how a client hears that it is rejected, and what its protocol has for that.
REJECTIONS = {
    "postgres": (rejected_by_postgres, "C53300"),
    "mysql": (rejected_by_mysql, "1040 the gateway"),
    "oracledb": (rejected_by_oracle, "ORA-00018: the gateway"),
    "mongodb": (rejected_by_mongodb, "the gateway"),
    "ssh": (rejected_by_ssh, "Received disconnect from 127.0.0.1 port"),
    "tunnel": (rejected_by_tunnel, "HTTP/1.1 503"),
}

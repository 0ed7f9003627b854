"""Startup parameters of a client reach the target, and the target's parameters reach the client."""

from __future__ import annotations

import socket
from typing import Any

import psycopg
import pytest
from tests.support import wire
from tests.support.clients import psql
from tests.support.gateway import Gateway


def test_startup_options_and_settings_reach_the_target(gateway: Gateway) -> None:
    url = gateway.url(options="-c search_path=pg_catalog -c work_mem=7MB", application_name="my tool")
    done = psql(url, "-c", "show search_path", "-c", "show work_mem", "-c", "show application_name")
    assert done.stdout == "pg_catalog\n7MB\nmy tool\n"
    assert gateway.newest_finished().metadata["application_name"] == "my tool"


def test_settings_from_the_clients_environment_reach_the_target(gateway: Gateway) -> None:
    done = psql(gateway.url(), "-c", "show timezone", "-c", "show datestyle", PGTZ="Asia/Tokyo", PGDATESTYLE="German")
    assert done.stdout == "Asia/Tokyo\nGerman, DMY\n"


@pytest.mark.parametrize("name", [None, "", "my tool"])
def test_application_name_is_the_one_of_the_client(gateway: Gateway, name: str | None) -> None:
    given: dict[str, Any] = {} if name is None else {"application_name": name}
    with psycopg.connect(gateway.url(), **given) as connection:
        assert connection.info.parameter_status("application_name") == (name or "")
        assert connection.execute("show application_name").fetchone() == (name or "",)
    issued = gateway.credential("target")
    with wire.connect(gateway.settings.postgres_port) as stream:
        wire.log_in(stream, issued.credential.username, issued.password.reveal(), **given)
        stream.sendall(wire.message(b"Q", b"select '<' || current_setting('application_name') || '>'\0"))
        assert f"<{name or ''}>".encode() in wire.until_ready(stream)


@pytest.mark.parametrize(("encoding", "codec"), [("LATIN1", "latin-1"), ("SJIS", "cp932"), ("WIN1252", "cp1252")])
def test_statements_are_recorded_in_the_encoding_of_the_client(gateway: Gateway, encoding: str, codec: str) -> None:
    text = "表ソ十" if encoding == "SJIS" else "grüße"
    with psycopg.connect(gateway.url(client_encoding=encoding)) as connection:
        assert connection.execute(f"select '{text}'").fetchone() == (text,)
        connection.execute("set client_encoding = 'UTF8'")
        assert connection.execute(f"select '{text}', 2").fetchone() == (text, 2)
    session = gateway.newest_finished()
    assert f"select '{text}'" in gateway.operations(session.id)
    assert f"select '{text}', 2" in gateway.operations(session.id)


@pytest.mark.parametrize("replication", ["database", "true", "1"])
def test_replication_connection_is_rejected(gateway: Gateway, replication: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="does not support replication connections"):
        psycopg.connect(gateway.url(replication=replication))


def test_protocol_3_2_client_gets_a_long_cancel_key(gateway: Gateway) -> None:
    issued = gateway.credential("target")
    login = (issued.credential.username, issued.password.reveal())
    with wire.connect(gateway.settings.postgres_port) as stream:
        assert len(wire.log_in(stream, *login, protocol=wire.PROTOCOL_3_2)) == 36
    with wire.connect(gateway.settings.postgres_port) as stream:
        assert len(wire.log_in(stream, *login)) == 8


def test_unknown_protocol_options_are_negotiated(gateway: Gateway) -> None:
    issued = gateway.credential("target")
    with wire.connect(gateway.settings.postgres_port) as stream:
        stream.sendall(wire.startup((3 << 16) | 99, user=issued.credential.username, **{"_pq_.later": "1"}))
        tag, body = wire.read_message(stream)
        assert (tag, body) == (b"v", b"\0\3\0\2\0\0\0\1_pq_.later\0")


def test_half_closed_client_still_gets_its_answer(gateway: Gateway) -> None:
    issued = gateway.credential("target")
    with wire.connect(gateway.settings.postgres_port) as stream:
        wire.log_in(stream, issued.credential.username, issued.password.reveal())
        stream.sendall(wire.message(b"Q", b"select pg_sleep(0.5); select 'the answer'\0"))
        stream.shutdown(socket.SHUT_WR)
        assert b"the answer" in wire.until_ready(stream)
        assert wire.closed_by_peer(stream) == b""
    assert gateway.newest_finished().metadata["end_reason"] == "client_closed"

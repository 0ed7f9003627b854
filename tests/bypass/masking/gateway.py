"""The same databases behind a real gateway, for the part of the corpus that runs end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.bypass.masking import mariadb, postgres
from tests.bypass.masking.compare import Answer, Heard
from tests.bypass.masking.strategies import Policing
from tests.bypass.masking.talk import SPOKEN_NAME, TIMEOUT
from tests.support import mysql_gateway, wire
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer

from postern.domain.targets.connection import Connection


def _masked(gateway: Gateway, connection: Connection, name: str, policing: Policing, columns: Sequence[str]) -> None:
    gateway.masking_rule(
        {
            "name": name,
            "groups": policing.groups,
            "columns": tuple(f"people.{column}" for column in columns),
            "strategy": policing.strategy,
            "strictness": policing.strictness,
            "connection_ids": (str(connection.id),),
        }
    )


def _redacting(policing: Policing) -> dict[str, Any]:
    return {"redact_enabled": bool(policing.redacted), "redact_types": tuple(sorted(policing.redacted))}


@dataclass
class PostgresGateway:
    """See `compare.Server`. Every session logs in at the gateway."""

    gateway: Gateway
    server: PostgresServer
    last_oid: int
    name: str = "postgres"
    protocols: tuple[str, ...] = ("simple", "extended")
    masked: tuple[str, ...] = postgres.MASKED
    _made: set[str] = field(default_factory=set)

    def run(self, policing: Policing | None, database: str, protocol: str, steps: Sequence[str]) -> Heard:
        assert policing is not None
        own = postgres.DATABASES[database]
        name = f"leaks-{policing.name}-{database}"
        if name not in self._made:
            self._made.add(name)
            made = self.gateway.connection(name, self.server, secret={"DB": own}, **_redacting(policing))
            _masked(self.gateway, made, name, policing, self.masked)
        parts = urlsplit(self.gateway.url(name, database=own))
        with wire.connect(parts.port or 0, TIMEOUT) as stream:
            wire.log_in(stream, unquote(parts.username or ""), unquote(parts.password or ""), database=own)
            answers = []
            for step in steps:
                stream.sendall(postgres.asked(step, protocol).replace(SPOKEN_NAME, own.encode()))
                told = _answer(stream).replace(own.encode(), SPOKEN_NAME)
                # Refusals name the rule, and each database has its own.
                told = told.replace(name.encode(), f"leaks-{policing.name}-a".encode())
                answers.append(postgres.messages_of(told, self.last_oid))
        return Heard(answers)

    def plain_columns(self, answer: Answer) -> list[bool]:
        raise NotImplementedError


def _answer(stream: Any) -> bytes:
    """All messages up to the end of the answer."""
    data, tag = b"", b""
    while tag != b"Z":
        tag, body = wire.read_message(stream)
        data += wire.message(tag, body)
    return data


@dataclass
class MariaDbGateway:
    """See `compare.Server`. Every session logs in at the gateway."""

    gateway: Gateway
    server: MariaDbServer
    name: str = "mariadb"
    protocols: tuple[str, ...] = ("text", "binary")
    masked: tuple[str, ...] = mariadb.MASKED
    _issued: dict[str, Any] = field(default_factory=dict)

    def run(self, policing: Policing | None, database: str, protocol: str, steps: Sequence[str]) -> Heard:
        assert policing is not None
        own = mariadb.DATABASES[database].encode()
        name = f"my-leaks-{policing.name}-{database}"
        if name not in self._issued:
            secret = {"DB": own.decode()}
            made = mysql_gateway.mysql_connection(
                self.gateway, name, self.server, secret=secret, **_redacting(policing)
            )
            _masked(self.gateway, made, name, policing, self.masked)
            self._issued[name] = self.gateway.credential(name)
        connection = mysql_gateway.connect(self.gateway, self._issued[name], database=own.decode())
        stream = connection._sock
        stream.settimeout(TIMEOUT)

        def received() -> bytes:
            told = bytes(stream.recv(1 << 16)).replace(own, SPOKEN_NAME)
            return told.replace(name.encode(), f"my-leaks-{policing.name}-a".encode())

        def exchange(data: bytes) -> mariadb.Packets:
            stream.sendall(data.replace(SPOKEN_NAME, own))
            return mariadb.Packets(received)

        client = mariadb.MysqlClient(exchange, protocol)
        try:
            return Heard([client.ask(step) for step in steps])
        finally:
            connection.close()

    def plain_columns(self, answer: Answer) -> list[bool]:
        raise NotImplementedError

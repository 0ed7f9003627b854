"""A gateway in front of a MongoDB server: connections to it, and clients that log in at its port."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pymongo
from tests.support import mongodb_program
from tests.support.gateway import Gateway
from tests.support.mongodb import PASSWORD, USER, MongoServer

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Connection

DATABASE = "shop"
MongoClient = pymongo.MongoClient[dict[str, Any]]


def mongodb_connection(gateway: Gateway, name: str, server: MongoServer | None = None, **more: Any) -> Connection:
    secret = {"USER": USER, "PASS": PASSWORD, "DB": DATABASE, "SSLMODE": "disable", **more.pop("secret", {})}
    if server is not None:
        secret = {"PORT": str(server.port), **secret}
    return gateway.connection(name, secret=secret, subtype="mongodb", **more)


def uri(gateway: Gateway, issued: Issued, *, port: int | None = None, monitors: bool = False, **options: str) -> str:
    """A connection string with a credential. `monitors`: without loadBalanced=true."""
    login = f"{quote(issued.credential.username)}:{quote(issued.password.reveal(), safe='')}"
    options = {"authMechanism": "SCRAM-SHA-256", "authSource": "admin", **options}
    options = options if monitors else {"loadBalanced": "true", **options}
    return f"mongodb://{login}@127.0.0.1:{port or gateway.settings.mongodb_port}/{DATABASE}?{urlencode(options)}"


def carried_uri(port: int) -> str:
    """A connection string for a port of `postern connect --tunnel`."""
    return f"mongodb://127.0.0.1:{port}/{DATABASE}?loadBalanced=true"


def connect(
    gateway: Gateway, issued: Issued, *, port: int | None = None, monitors: bool = False, **options: Any
) -> MongoClient:
    """A client of one connection that repeats nothing, unless `options` say so."""
    options = {"maxPoolSize": 1, "waitQueueTimeoutMS": 60_000, "retryReads": False, "retryWrites": False, **options}
    return MongoClient(uri(gateway, issued, port=port, monitors=monitors), **options)


def program(address: str) -> list[str]:
    """The command of a client that reads commands from its input."""
    return [sys.executable, str(Path(mongodb_program.__file__)), address]


def documents(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The first documents of the reply to a find or an aggregation."""
    return list(reply["cursor"]["firstBatch"])

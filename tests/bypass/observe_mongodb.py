"""Run cases on a real server of MongoDB's protocol and observe their effects.

Each command runs as it is, on a server without logins. The state of the server is summarised before and after; if it
differs, the databases are created again. SecantusDB knows no rights of its commands, so that what an account without
rights may not do is seen as harmless. What it does not implement is seen as an error.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import bson
import pymongo
from bson import Int64
from tests.bypass.cases import Case, Observed
from tests.bypass.mongodb_forms import Fields, encode
from tests.support.mongodb import MongoServer
from tests.support.protocols import mongodb_test_messages as mg

from postern.protocols.mongodb.wire import mongodb_messages as m

_TIMEOUT: Final = 20.0  # seconds
_KEPT: Final = frozenset({"admin", "config", "local"})
# The error codes of commands, stages, operators and options that a server does not have, besides BSON that it cannot
# read: CommandNotFound, CommandNotSupported, FailedToParse, unknown stages and expressions.
NOT_IMPLEMENTED: Final = frozenset({59, 115, 238, 40324, 168, 31325, 15952, 40234})


@dataclass
class MongodbObserver:
    """Needs a `server` of its own, because cases change all of it."""

    server: MongoServer

    def __post_init__(self) -> None:
        self._client: pymongo.MongoClient[dict[str, Any]] = self.server.client()
        self._renew()

    def close(self) -> None:
        self._client.close()

    def observe(self, case: Case) -> Observed:
        """Run a case. `error` is the code of the error, if there is one; `rejected`: no message can have the text, or
        the server does not implement it."""
        try:
            message = mg.request(encode(json.loads(case.text, object_pairs_hook=Fields)))
        except (ValueError, TypeError, bson.errors.BSONError):
            return Observed(rejected=True)
        for text in case.before:
            self._send(mg.request(encode(json.loads(text, object_pairs_hook=Fields))))
        if case.before:
            self._before = self._sum()
        seen = self.observe_message(message)
        if case.before and not seen.changed:
            self._renew()
        return seen

    def observe_message(self, message: bytes) -> Observed:
        reply = self._send(message)
        changed = self._sum() != self._before
        if changed:
            self._renew()
        code = self._error(reply)
        return Observed(changed=changed, rejected=code in NOT_IMPLEMENTED, error=str(code or ""))

    def _error(self, reply: dict[str, Any]) -> int:
        errors = [reply, *reply.get("writeErrors", ()), *reply.get("cursor", {}).get("firstBatch", ())]
        return next((int(each["code"]) for each in errors if "code" in each and "errmsg" in each), 0)

    def _send(self, message: bytes) -> dict[str, Any]:
        if message[16] & 2:
            message = message[:16] + b"\0" + message[17:]  # otherwise nobody knows when it has run
        try:
            with socket.create_connection(("127.0.0.1", self.server.port), _TIMEOUT) as stream:
                stream.sendall(message)
                data = b""
                while len(data) < 4 or len(data) < int.from_bytes(data[:4], "little"):
                    part = stream.recv(1 << 20)
                    if not part:
                        return {"errmsg": "connection lost", "code": -1}
                    data += part
        except OSError:
            return {"errmsg": "connection lost", "code": -1}
        parsed = m.parse_message(data)
        return bson.decode(data[parsed.pos : parsed.end])

    def _databases(self) -> list[str]:
        return sorted(name for name in self._client.list_database_names() if name not in _KEPT)

    def _renew(self) -> None:
        for name in self._databases():
            self._client.drop_database(name)
        admin = self._client.admin
        for name in {"scratch", "admin", *self._databases()}:
            database = self._client[name]
            for user in database.command("usersInfo", 1).get("users", ()):
                database.command("dropUser", user["user"])
            for role in database.command("rolesInfo", 1).get("roles", ()):
                database.command("dropRole", role["role"])
        for name in admin.list_collection_names():
            if not name.startswith("system."):
                admin.drop_collection(name)
        scratch = self._client["scratch"]
        scratch.command("profile", 0)
        scratch.orders.insert_many(
            {"_id": number, "total": number, "status": "open", "items": [{"sku": "a"}], "paid": number > 1}
            for number in range(1, 4)
        )
        scratch.orders.create_index("status", name="status_1")
        scratch.customers.insert_many({"_id": number, "name": name} for number, name in enumerate(("Ann", "Bob")))
        scratch.command("createUser", "eve", pwd="x", roles=[])
        self._before = self._sum()

    def _sum(self) -> str:
        return repr(list(self._state()))

    def _state(self) -> Iterator[object]:
        for name in [*self._databases(), "admin"]:
            database = self._client[name]
            yield name
            yield sorted(
                user["user"] + repr(user["roles"]) for user in database.command("usersInfo", 1).get("users", ())
            )
            yield sorted(map(repr, database.command({"rolesInfo": 1, "showPrivileges": True}).get("roles", ())))
            for collection in sorted(database.list_collections(), key=lambda each: str(each["name"])):
                title = collection["name"]
                yield title, collection.get("type"), collection.get("options")
                if title.startswith("system."):
                    continue
                if collection.get("type") != "view":
                    yield sorted(map(repr, database[title].list_indexes()))
                    yield sorted(map(repr, database[title].find()))
        for setting in ("logLevel",):
            yield self._client.admin.command({"getParameter": 1, setting: 1}).get(setting)
        yield self._client["scratch"].command("profile", Int64(-1)).get("was")

"""Databases of MongoDB that differ in masked values only, on a real server, and clients of them."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import bson
from bson import Binary, Code, DBRef, Decimal128, Int64, ObjectId, Regex, Timestamp
from tests.bypass.masking.attacks_mongodb import _VIEWS
from tests.bypass.masking.mongodb_talk import SPOKEN, MongodbTalk, comparable, read_schema
from tests.bypass.masking.strategies import Policing
from tests.support.mongodb import MongoServer

from postern.domain.rules.policy import Policy
from postern.domain.targets.target_schema import TargetSchema

DATABASES: Final = {"a": b"scrat_a", "b": b"scrat_b", "c": b"scrat_c"}
MASKED: Final = (
    *("people.ssn", "people.salary", "people.contact.email", "people.cards.number", "people.grid"),
    *("kinds.secret", "kinds.inner.deep", "shelf._id", "shelf.code", "terms.text"),
)
# Number, salary, address and card of each person; see `Policing.variant`.
_PEOPLE: Final = {
    "a": (("123-45-6789", 83412, "ann@x.org", "4-one"), ("523-00-1111", 51200, "ben@y.net", "5-two"),
          ("777-12-3456", 7350, "cat@z.de", "6-three")),
    "b": (("923-99-6789", 87999, "anne.f@x.org", "4-uno-x"), ("023-77-1111", 59001, "bq@y.net", "5-dos"),
          ("111-98-3456", 7001, "cyril@z.de", "6-drei")),
    "c": (("323-45-0000", -12, "zoe@xx.org", "none"), ("x", 2000000, "b@y.com", "a"),
          ("62-345-6777-long", 44, "mat@zz.de", "b-long-long")),
}  # fmt: skip
_GUESSES: Final = ("123-45-6789", "323-45-0000", "ann@x.org", "zoe@xx.org")
# What databases `a` have that no client can guess: `find_secrets` looks for it.
SECRETS: Final = ("777-12-3456", "523-00-1111", "83412", "51200", "cat@z.de", "ben@y.net", "6-three", "zanzibar")
_WRITES: Final = re.compile(
    r'"(?:create\w*|collMod|drop\w*|renameCollection|insert|update|delete|findAndModify|findandmodify|bulkWrite|\$out'
    r'|\$merge|convertToCapped|applyOps|cloneCollectionAsCapped|mapReduce|profile|reIndex)"'
)


def secret_kinds(variant: str) -> list[Any]:
    """Return a value of each type of BSON; other ones in each database."""
    text = {"a": "zanzibar", "b": "zappelphilipp", "c": "rumpelstilz-long"}[variant]
    number = {"a": 1, "b": 2, "c": 3}[variant]
    return [
        text, 1_000_000 + number, Int64((1 << 60) + number), float(number) + 1.5, Decimal128(f"1{number}.75"),
        datetime(2020, 1, number, tzinfo=UTC), Binary.from_uuid(UUID(int=number << 64 | 0xBEEF)), ObjectId(bytes([number] * 12)),
        Binary(text.encode(), 0), Binary(text.encode(), 128), Binary(bytes([200, number, 255]), 5), Regex(text, "i"),
        Code(f"return '{text}'"), Code("return x", {"x": text}), Timestamp(1_600_000_000 + number, number),
        DBRef("other", text), {"name": text}, [text, [text, [number]]], [[number]], {"": text}, {"a.b": text},
        {"$x": text}, {"deep": {"er": [{"est": text}]}}, float("nan"), None,
    ]  # fmt: skip


def fill(database: Any, variant: str) -> None:
    """Create the collections and views in a database of PyMongo."""
    database.client.drop_database(database.name)
    database.people.insert_many(
        {
            "_id": number, "name": ("Ann", "Ben", "Cat")[number], "ssn": ssn, "salary": salary, "age": number * 3,
            "contact": {"email": email, "city": "Bonn"}, "note": "n", "tags": ["p", "q"], "flag": number,
            "cards": [{"number": card, "kind": "a"}, {"number": f"{card}z", "kind": "b"}], "grid": [[ssn], [[salary]]],
        }
        for number, (ssn, salary, email, card) in enumerate(_PEOPLE[variant])
    )  # fmt: skip
    database.people.create_index("flag", unique=True, name="flag_once")
    database.orders.insert_many([{"_id": number, "person": number % 3, "total": number * 5} for number in range(4)])
    database.guesses.insert_many([{"_id": number, "value": value} for number, value in enumerate(_GUESSES)])
    database.kinds.insert_many(
        {"_id": number, "label": "k", "secret": secret, "inner": {"deep": secret, "open": number}}
        for number, secret in enumerate(secret_kinds(variant))
    )
    database.shelf.insert_many(
        {"_id": ssn, "code": card, "place": place} for place, (ssn, _, _, card) in enumerate(_PEOPLE[variant])
    )
    for name, definition in _VIEWS.items():
        if name != "v_loop":
            view = json.loads(definition)
            database.command({"create": name, "viewOn": view["viewOn"], "pipeline": view["pipeline"]})


@dataclass
class Heard:
    replies: list[Any]
    received: bytes
    is_marked: bool
    sent: bytes


@dataclass
class MongodbWorld:
    """The server, its databases, and conversations with them."""

    server: MongoServer
    client: Any
    schema: TargetSchema = field(default_factory=TargetSchema)

    def renew(self, *variants: str) -> None:
        for variant in variants or DATABASES:
            fill(self.client[DATABASES[variant].decode()], variant)

    def talk(self, policy: Policy, variant: str = "a") -> MongodbTalk:
        return MongodbTalk(self.server.port, policy, self.schema, DATABASES[variant])

    def run(self, policing: Policing | None, variant: str, steps: Sequence[str]) -> Heard:
        """Run the commands of one session; without a policy as the server answers them."""
        policy = Policy() if policing is None else policing.policy(MASKED)
        with self.talk(policy, variant) as talk:
            answers = [comparable(talk.ask_text(step)) for step in steps]
            heard = Heard(answers, talk.received, talk.is_marked, talk.sent)
        if any(_WRITES.search(step) for step in steps):
            self.renew(variant)
        return heard


@contextlib.contextmanager
def mongodb_world(server: MongoServer) -> Iterator[MongodbWorld]:
    with server.client() as client:
        world = MongodbWorld(server, client)
        world.renew()
        world.schema = read_schema(server.port, DATABASES["a"])
        assert ("scratch", "people") in world.schema.relations, SPOKEN
        yield world


def is_error(reply: Any) -> bool:
    return "ok" not in reply or float(reply["ok"]) != 1.0


def encoded(value: Any) -> bytes:
    return bson.encode({"v": value})

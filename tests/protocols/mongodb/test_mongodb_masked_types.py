"""Values of every type of BSON under masked fields, and kinds of values in any place: what the client gets stays valid
and holds none of them."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import bson
import pytest
from bson.codec_options import CodecOptions, DatetimeConversion
from hypothesis import given
from hypothesis import strategies as st
from tests.bypass.masking.strategies import ALL_TYPES, STRATEGIES, Policing
from tests.support.mongodb_documents import DOCUMENTS
from tests.support.mongodb_links import sent
from tests.support.protocols import mongodb_test_messages as mg

from postern.domain.rules.masking import InfoType, MaskingRule
from postern.domain.rules.policy import Policy
from postern.domain.secret import Secret
from postern.domain.targets.target_schema import Relation, TargetSchema
from postern.interception.pipeline import Pipeline, SessionView
from postern.protocols.mongodb.wire import mongodb_messages as m
from postern.protocols.mongodb.wire.mongodb_wire import MongodbWire
from postern.protocols.wire_base import Side
from postern.relay.link import Link
from postern.wiring.processes.worker_process import default_interceptors

SCHEMA = TargetSchema({("shop", name): Relation("shop", name, ()) for name in ("people", "open")})
OPTIONS = CodecOptions[dict[str, Any]](datetime_conversion=DatetimeConversion.DATETIME_MS)
SECRET = b"lovelace"
MAIL = "ann@example.com"
CARD = "4111111111111111"


def link_of(policy: Policy) -> Link:
    view = SessionView(UUID(int=3), "ann@example.com", frozenset(), "shop", "database", "mongodb", {}, schema=SCHEMA)
    return Link(MongodbWire(), Pipeline(default_interceptors(policy, view, "mongodb"), view), clock=lambda: 0)


def answer(policy: Policy, command: bytes, reply: bytes) -> bytes:
    """Return what the client is sent of a reply."""
    link = link_of(policy)
    link.receive(Side.CLIENT, command)
    return sent(link.receive(Side.TARGET, reply), Side.CLIENT)


def decode(message: bytes) -> dict[str, Any]:
    parsed = m.parse_message(message)
    return bson.decode(message[parsed.pos : parsed.end], OPTIONS)


def element(kind: int, name: str, value: bytes) -> bytes:
    return bytes([kind]) + name.encode() + b"\0" + value


def document(*elements: bytes) -> bytes:
    content = b"".join(elements)
    return (len(content) + 5).to_bytes(4, "little") + content + b"\0"


def text(value: bytes) -> bytes:
    return (len(value) + 1).to_bytes(4, "little") + value + b"\0"


def batch(*documents: bytes) -> bytes:
    """The reply to a find, of encoded documents."""
    rows = document(*[element(3, str(place), each) for place, each in enumerate(documents)])
    cursor = document(element(4, "firstBatch", rows), bson.encode({"id": bson.Int64(0), "ns": "shop.people"})[4:-1])
    return mg.reply(document(element(3, "cursor", cursor), bson.encode({"ok": 1.0})[4:-1]))


_SCOPE = document(element(2, "scope", text(SECRET)))
_CODE = text(SECRET) + _SCOPE
_SIZE = len(SECRET).to_bytes(4, "little")
_OLD_SIZE = (len(SECRET) + 4).to_bytes(4, "little")
_TWICE = document(element(2, "7", text(b"x")), element(2, "7", text(SECRET)))
# Types of which MongoDB's own library makes no values, with the secret in each.
VALUES = {
    "string": element(2, "v", text(SECRET)),
    "document": element(3, "v", document(element(2, "w", text(SECRET)))),
    "array": element(4, "v", document(element(2, "0", text(SECRET)))),
    "array with one name twice": element(4, "v", _TWICE),
    "binary": element(5, "v", _SIZE + b"\0" + SECRET),
    "binary of the old type": element(5, "v", _OLD_SIZE + b"\2" + _SIZE + SECRET),
    "binary of a user's type": element(5, "v", _SIZE + b"\x80" + SECRET),
    "binary that is encrypted": element(5, "v", _SIZE + b"\6" + SECRET),
    "UUID": element(5, "v", (16).to_bytes(4, "little") + b"\4" + SECRET * 2),
    "UUID of another length": element(5, "v", _SIZE + b"\4" + SECRET),
    "ObjectId": element(7, "v", SECRET + b"1234"),
    "date": element(9, "v", SECRET),
    "regular expression": element(11, "v", SECRET + b"\0i\0"),
    "DBPointer": element(12, "v", text(SECRET) + b"123456789012"),
    "DBPointer's ObjectId": element(12, "v", text(b"c") + SECRET + b"1234"),
    "code": element(13, "v", text(SECRET)),
    "symbol": element(14, "v", text(SECRET)),
    "code with a scope": element(15, "v", (len(_CODE) + 4).to_bytes(4, "little") + _CODE),
    "timestamp": element(17, "v", SECRET),
    "64-bit number": element(18, "v", SECRET),
    "double": element(1, "v", SECRET),
    "decimal": element(19, "v", SECRET * 2),
    "name twice": element(3, "v", document(element(2, "w", text(b"x")), element(2, "w", text(SECRET)))),
    "empty name": element(3, "v", document(element(2, "", text(SECRET)))),
    "name with dots": element(3, "v", document(element(2, "a.b..c", text(SECRET)))),
    "name with a dollar": element(3, "v", document(element(2, "$ref", text(SECRET)), element(2, "$id", text(SECRET)))),
}  # fmt: skip


def _deep(levels: int) -> bytes:
    inner = element(2, "w", text(SECRET))
    for _ in range(levels):
        inner = element(4, "0", document(element(3, "0", document(inner))))
    return element(3, "v", document(inner))


@pytest.mark.parametrize("policing", STRATEGIES, ids=lambda policing: policing.name)
@pytest.mark.parametrize("value", [*VALUES.values(), _deep(40)], ids=[*VALUES, "hundred levels"])
def test_masked_value_of_any_type_is_not_shown(value: bytes, policing: Policing) -> None:
    reply = batch(document(value, element(2, "open", text(b"stays"))), document(element(8, "v", b"\1"), value))
    shown = answer(policing.policy(["people.v"]), mg.command("find", "people"), reply)
    assert SECRET not in shown
    (first, _) = decode(shown)["cursor"]["firstBatch"]
    assert first["open"] == "stays"


@pytest.mark.parametrize("policing", STRATEGIES, ids=lambda policing: policing.name)
@pytest.mark.parametrize("value", VALUES.values(), ids=list(VALUES))
def test_computed_value_of_any_type_is_not_shown(value: bytes, policing: Policing) -> None:
    computed = mg.command("aggregate", "people", pipeline=[{"$project": {"v": {"$max": ["$v", "$w"]}}}], cursor={})
    shown = answer(policing.policy(["people.v"]), computed, batch(document(value)))
    assert SECRET not in shown
    decode(shown)


def _kinds(kind: InfoType) -> Policy:
    rule = MaskingRule(UUID(int=1), UUID(int=2), "kinds", groups=ALL_TYPES)
    return Policy(masked_types=frozenset({kind}), masking=(rule,), masking_key=Secret("5e" * 32))


@pytest.mark.parametrize(
    "fields",
    [
        {"a": MAIL},
        {"a": [[MAIL]]},
        {"a": {"b": [{"c": MAIL}]}},
        {"a": f"to {MAIL}, please"},
        {"a": bson.Code(f"return '{MAIL}'")},
        {"a": bson.Code("x", {"y": MAIL})},
        {"a": bson.Binary(MAIL.encode(), 0)},
        {"a": bson.Binary(MAIL.encode(), 2)},
        {MAIL: 1},
        {"a": {MAIL: {MAIL: MAIL}}},
        {"a": [{MAIL: []}]},
        {"": MAIL},
        {"a.b": MAIL},
        {"$a": MAIL},
        {"$ref": "c", "$id": MAIL},
    ],
    ids=str,
)
def test_address_is_found_in_any_text_and_in_names(fields: dict[str, Any]) -> None:
    shown = answer(_kinds(InfoType.EMAIL_ADDRESS), mg.command("find", "open"), mg.batch(fields, {"b": 5}))
    assert MAIL.encode() not in shown
    assert decode(shown)["cursor"]["firstBatch"][1] == {"b": 5}


@pytest.mark.parametrize(
    "value", [CARD, int(CARD), bson.Int64(CARD), float(CARD), bson.Decimal128(CARD), [bson.Int64(CARD)]]
)
def test_card_is_found_in_texts_and_numbers(value: object) -> None:
    shown = answer(_kinds(InfoType.CREDIT_CARD), mg.command("find", "open"), mg.batch({"a": value}))
    found = decode(shown)["cursor"]["firstBatch"][0]["a"]
    assert CARD not in str(found)
    assert CARD not in json.dumps(found, default=str)
    assert int(CARD).to_bytes(8, "little") not in shown


@given(DOCUMENTS, st.sampled_from(STRATEGIES))
def test_any_document_stays_valid_and_keeps_its_open_fields(masked: bytes, policing: Policing) -> None:
    reply = batch(document(element(3, "v", masked), element(3, "open", masked)))
    shown = decode(answer(policing.policy(["people.v"]), mg.command("find", "people"), reply))
    if policing.groups or policing.redacted or not shown["ok"]:
        return
    (found,) = shown["cursor"]["firstBatch"]
    assert str(found["open"]) == str(bson.decode(masked, OPTIONS))
    assert _shape(found["v"]) == _shape(found["open"])


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _shape(each)) for name, each in value.items()]
    return [_shape(each) for each in value] if isinstance(value, list) else None

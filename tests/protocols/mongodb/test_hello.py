"""The gateway's replies to hello."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from pymongo.hello import Hello
from pymongo.server_type import SERVER_TYPE

from postern.errors import ProtocolViolation
from postern.protocols.mongodb.login.mongodb_hello import (
    SERVICE_ID,
    WIRE_VERSIONS,
    HelloFacts,
    hello_after_login,
    hello_reply,
)

PARAMETERS = {
    "kind": "replica_set",
    "min_wire_version": "0",
    "max_wire_version": "17",
    "max_document": "7",
    "max_message": "48000000",
    "max_write_batch": "1000",
    "logical_session_timeout": "20",
    "version": "6.0.5",
}


def after_login(request: dict[str, Any], **parameters: str) -> dict[str, Any]:
    return bson.decode(hello_after_login({**PARAMETERS, **parameters})(bson.encode(request)))


def test_hello_after_the_login_tells_the_facts_of_the_target() -> None:
    assert after_login({"hello": 1, "$db": "shop"}) == {
        "isWritablePrimary": True,
        "msg": "isdbgrid",
        "maxBsonObjectSize": 7,
        "maxMessageSizeBytes": 48000000,
        "maxWriteBatchSize": 1000,
        "connectionId": 0,
        "minWireVersion": 0,
        "maxWireVersion": 17,
        "readOnly": False,
        "logicalSessionTimeoutMinutes": 20,
        "ok": 1.0,
    }


def test_target_without_sessions_has_none_here() -> None:
    assert "logicalSessionTimeoutMinutes" not in after_login({"hello": 1}, logical_session_timeout="")


def test_facts_that_a_target_does_not_tell_are_the_usual_ones() -> None:
    answer = bson.decode(hello_after_login({})(bson.encode({"isMaster": 1})))
    assert (answer["ismaster"], answer["maxWireVersion"], answer["maxBsonObjectSize"]) == (True, 9, 16777216)


def test_load_balanced_clients_get_a_service_id() -> None:
    assert after_login({"hello": 1, "loadBalanced": True})["serviceId"] == SERVICE_ID
    assert "serviceId" not in after_login({"hello": 1, "loadBalanced": 1})


@pytest.mark.parametrize(
    "more",
    [
        {"compression": ["zlib"]},
        {"speculativeAuthenticate": {"saslStart": 1}},
        {"saslSupportedMechs": "admin.ann"},
        {"topologyVersion": {"processId": SERVICE_ID, "counter": 1}, "maxAwaitTimeMS": 10000},
    ],
)
def test_hello_promises_nothing_that_the_gateway_does_not_do(more: dict[str, Any]) -> None:
    answer = after_login({"hello": 1, **more})
    assert not answer.keys() & {*more, "hosts", "setName", "me", "primary"}


def test_driver_takes_the_reply_for_a_router() -> None:
    hello = Hello(after_login({"hello": 1}))
    assert hello.server_type == SERVER_TYPE.Mongos
    assert hello.is_writable


@pytest.mark.parametrize("version", WIRE_VERSIONS)
def test_version_decides_the_wire_version(version: str) -> None:
    assert hello_reply({"hello": 1}, HelloFacts.of_version(version))["maxWireVersion"] == WIRE_VERSIONS[version]


def test_hello_with_values_that_python_lacks_is_answered() -> None:
    strange = b"\x02text\0\x02\0\0\0\xff\0" + b"\x09date\0\xff\xff\xff\xff\xff\xff\xff\x7f"
    body = b"\x10hello\0\1\0\0\0" + strange + b"\0"
    request = (len(body) + 4).to_bytes(4, "little") + body
    assert bson.decode(hello_after_login(PARAMETERS)(request))["ok"] == 1


def test_hello_that_cannot_be_read_is_a_violation() -> None:
    with pytest.raises(ProtocolViolation):
        hello_after_login(PARAMETERS)(b"\x05\0\0\0\1")


def test_hello_announces_no_larger_messages_than_the_gateway_evaluates() -> None:
    """Drivers split their batches by it. One document and its command fit into a message."""
    after = hello_after_login({**PARAMETERS, "max_document": "16777216"}, max_message=1_000_000)
    answer = bson.decode(after(bson.encode({"hello": 1})))
    assert (answer["maxMessageSizeBytes"], answer["maxBsonObjectSize"]) == (1_000_000, 1_000_000 - 16 * 1024)
    before = hello_reply({"hello": 1}, HelloFacts.of_version("7.0").limit_messages(1_000_000))
    assert (before["maxMessageSizeBytes"], before["maxBsonObjectSize"]) == (1_000_000, 1_000_000 - 16 * 1024)


def test_hello_keeps_the_sizes_of_a_target_that_allows_less_than_the_gateway() -> None:
    after = hello_after_login(PARAMETERS, max_message=100_000_000)
    answer = bson.decode(after(bson.encode({"hello": 1})))
    assert (answer["maxMessageSizeBytes"], answer["maxBsonObjectSize"]) == (48_000_000, 7)

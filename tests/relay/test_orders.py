"""The orders about targets between gateway and agent."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from tests.support.spans import TRACEPARENT
from tests.support.tables import cross

from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import ConnectionType
from postern.errors import Denied, PosternError, ProtocolViolation, TooMany, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.relay.orders import DIAL, Order, decode_error, encode_answer, encode_error, read_answer
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import ChannelKind, ChannelRequest, Start, Target, Terminal
from postern.transport.tunnel_messages import Refused

MISSING = object()


def short(value: object) -> str:
    """Return a test id of bounded length."""
    return "missing" if value is MISSING else repr(value)[:20] if not isinstance(value, str) else value


@pytest.fixture
def order() -> Order:
    return Order(
        session_id=uuid4(),
        user_id="ann",
        user_email="ann@example.com",
        verb=Verb.CONNECT,
        connection_id=uuid4(),
        connection="shop",
        type=ConnectionType.DATABASE,
        subtype="postgres",
        command=(),
        secret={"envvar:PASS": Secret("eA==")},
        start=Start(),
        timeout=5.0,
    )


def test_order_carries_the_trace_context(order: Order) -> None:
    traced = replace(order, trace=TRACEPARENT)
    assert Order.read(traced.message(DIAL)) == traced
    assert Order.read(order.message(DIAL)).trace == ""


def test_order_of_an_older_gateway_is_read(order: Order) -> None:
    message = order.message(DIAL)
    del message["traceparent"]
    del message["start"]["channel"], message["start"]["host_keys"]
    assert Order.read(message) == order


@pytest.mark.parametrize("host_keys", [None, (), ("ssh-ed25519 AAAA", "ssh-rsa BBBB")])
@pytest.mark.parametrize("kind", ChannelKind)
def test_order_carries_the_channel_and_the_host_keys(
    order: Order, kind: ChannelKind, host_keys: tuple[str, ...] | None
) -> None:
    start = Start(channel=ChannelRequest(kind, "cat '\udcff'", str(uuid4())), host_keys=host_keys)
    given = replace(order, start=start)
    assert Order.read(json.loads(json.dumps(given.message(DIAL)))) == given


def test_order_with_an_unknown_channel_kind_is_a_protocol_violation(order: Order) -> None:
    message = order.message(DIAL)
    message["start"] |= {"channel": {"kind": "x11", "what": "", "login": ""}}
    with pytest.raises(ProtocolViolation):
        Order.read(message)


@pytest.mark.parametrize("given", ["x", 7, None, [], TRACEPARENT + "\n", "0" * 100_000])
def test_invalid_trace_context_is_ignored(order: Order, given: Any) -> None:
    assert Order.read({**order.message(DIAL), "traceparent": given}).trace == ""


FULL_START = Start(
    database="sales",
    parameters={"application_name": "psql"},
    arguments=("-c", "date"),
    environment={"LANG": "C.UTF-8"},
    terminal=Terminal(132, 43, "screen"),
    channel=ChannelRequest(ChannelKind.EXEC, "uptime", "7f0c0a3e-0000-4000-8000-000000000000"),
    host_keys=("ssh-ed25519 AAAA",),
)
REQUIRED = set(Order.__dataclass_fields__) - {"trace"}
REQUIRED_OF_START = set(Start.__dataclass_fields__) - {"channel", "host_keys"}  # which older gateways do not send


def change(message: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return the message with the field at `path` (`start.terminal.columns`) replaced, or left out."""
    name, _, rest = path.partition(".")
    if rest:
        return {**message, name: change(message[name], rest, value)}
    changed = {**message, name: value}
    return {name: value for name, value in changed.items() if value is not MISSING}


def full_message(order: Order) -> dict[str, Any]:
    full = replace(order, command=("psql", "-X"), start=FULL_START)
    message: dict[str, Any] = json.loads(json.dumps(full.message(DIAL)))
    assert Order.read(message) == full
    return message


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((name, MISSING) for name in sorted(REQUIRED)),
        *((f"start.{name}", MISSING) for name in sorted(REQUIRED_OF_START)),
        *((f"start.terminal.{name}", MISSING) for name in ("columns", "rows", "name")),
        *((f"start.channel.{name}", MISSING) for name in ("kind", "what", "login")),
        *cross(("session_id", "connection_id"), ("not a UUID", 7, None)),
        *cross(("verb", "type"), ("unknown", 7, None)),
        *cross(("command",), (7, None)),
        *cross(("secret",), (7, None, [], "PASS")),
        *cross(("timeout",), ("soon", None, [], 10**400)),
        *cross(("start",), (7, None, [], "start", {})),
        *cross(("start.parameters", "start.environment"), (7, None, [])),
        *cross(("start.arguments",), (7, None)),
        *cross(("start.terminal",), (7, [], "xterm", {})),
        *cross(("start.terminal.columns", "start.terminal.rows"), ("x", None, float("inf"))),
        *cross(("start.channel",), (7, [], "exec", {})),
        ("start.host_keys", 7),
    ],
    ids=short,
)
def test_order_with_a_malformed_field_is_a_protocol_violation(order: Order, path: str, value: Any) -> None:
    message = change(full_message(order), path, value)
    with pytest.raises(ProtocolViolation, match=r"the order is not valid \(\w*Error\)"):
        Order.read(message)


def test_error_about_a_malformed_order_does_not_quote_its_secret(order: Order) -> None:
    message = order.message(DIAL) | {"timeout": "eA=="}
    with pytest.raises(ProtocolViolation) as refused:
        Order.read(message)
    assert "eA==" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_answer_carries_parameters_and_cancel_key_of_the_target() -> None:
    reached = Target(StreamHandshake(), {"server_version": "17.2"}, (1 << 64) - 1, b"\0\xff")
    target = Target(StreamHandshake())
    read_answer(target, json.loads(json.dumps(encode_answer(reached))))
    assert (target.parameters, target.process, target.key) == (reached.parameters, reached.process, reached.key)
    read_answer(target, encode_answer(Target(StreamHandshake())))
    assert (target.parameters, target.process, target.key) == ({}, 0, b"")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, MISSING) for name in ("parameters", "process", "key")),
        *cross(("parameters",), (7, None, [], "x")),
        *cross(("process",), ("x", None, [], -1, 1 << 64, float("inf"), float("nan"))),
        *cross(("key",), ("x", "abc", None, 7, [])),
    ],
)
def test_answer_with_a_malformed_field_is_a_protocol_violation(field: str, value: Any) -> None:
    answer = change(encode_answer(Target(StreamHandshake(), {"a": "b"}, 1, b"key")), field, value)
    with pytest.raises(ProtocolViolation, match="the agent's answer is not valid"):
        read_answer(Target(StreamHandshake()), answer)


@pytest.mark.parametrize(
    "error",
    [
        TargetRefused("password authentication failed", "28P01", "Check the password."),
        TargetRefused("no"),
        ProtocolViolation("not a server of that kind"),
        TooMany("the agent has no more sessions"),
        Denied("the agent's own policy does not allow it"),
        Unavailable("nothing listens there"),
    ],
    ids=repr,
)
def test_gateway_raises_the_error_that_the_agent_had(error: PosternError) -> None:
    raised = decode_error(Refused(*encode_error(error)))
    assert (type(raised), raised.message) == (type(error), error.message)
    if isinstance(error, TargetRefused):
        assert isinstance(raised, TargetRefused)
        assert (raised.code, raised.hint) == (error.code, error.hint)


@pytest.mark.parametrize("code", ["", "Malformed", "KeyError", "SystemExit", "Unauthenticated"])
def test_unknown_kind_of_agent_error_makes_the_target_unavailable(code: str) -> None:
    raised = decode_error(Refused(code, "something else", {}))
    assert (type(raised), raised.message) == (Unavailable, "something else")


def test_error_of_a_target_is_read_without_details() -> None:
    raised = decode_error(Refused("TargetRefused", "no", {}))
    assert isinstance(raised, TargetRefused)
    assert (raised.code, raised.hint) == ("", "")

"""The messages about session hooks between gateway and agent."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from tests.agent.test_secrets import order
from tests.support.tables import cross

from postern.domain.hook import MAX_OUTPUT, MAX_REASON, HookOutcome
from postern.errors import ProtocolViolation
from postern.relay.relay_hooks import MORE, Hook, encode_outcome, read_answer, truncate_output

HOOK = Hook(uuid4(), "print('größe')\n", "Y29udGV4dA==", 2.5)
MISSING = object()


def hook_message(**changes: Any) -> dict[str, Any]:
    """Return a well-formed message as it arrives, with some fields of its hook replaced or left out."""
    message: dict[str, Any] = json.loads(json.dumps(HOOK.message(order({}))))
    message["hook"].update(changes)
    message["hook"] = {name: value for name, value in message["hook"].items() if value is not MISSING}
    return message


def test_hook_order_is_read_as_sent() -> None:
    message = hook_message()
    assert message["order"] == "hook"
    assert Hook.read(message) == HOOK


def test_hook_with_empty_text_or_whole_seconds_is_read() -> None:
    assert Hook.read(hook_message(text="")) == replace(HOOK, text="")
    assert Hook.read(hook_message(seconds=3)) == replace(HOOK, seconds=3.0)


@pytest.mark.parametrize(
    "changes",
    [
        *({name: MISSING} for name in ("id", "text", "context", "seconds")),
        {"id": "not a UUID"},
        {"id": 7},
        {"id": None},
        {"text": "not base64!"},
        {"text": "YQ"},  # without its padding
        {"text": 7},
        {"text": None},
        {"text": base64.b64encode(b"\xff").decode()},
        {"seconds": "soon"},
        {"seconds": None},
        {"seconds": []},
        {"seconds": 10**400},  # no float is that large
    ],
    ids=lambda changes: ",".join(
        f"{name}={'missing' if value is MISSING else repr(value)[:20]}" for name, value in changes.items()
    ),
)
def test_hook_order_with_a_malformed_field_is_a_protocol_violation(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolViolation, match=r"the hook order is not valid \(\w*Error\)"):
        Hook.read(hook_message(**changes))


@pytest.mark.parametrize(
    "hook", [MISSING, None, 7, "text", [], {}], ids=lambda hook: "missing" if hook is MISSING else str(hook)
)
def test_message_without_a_hook_is_a_protocol_violation(hook: Any) -> None:
    message = {} if hook is MISSING else {"hook": hook}
    with pytest.raises(ProtocolViolation, match="the hook order is not valid"):
        Hook.read(message)


@pytest.mark.parametrize("code", [None, 0, 1, 255])
def test_outcome_of_a_hook_is_read_as_sent(code: int | None) -> None:
    outcome = HookOutcome(code, "printed\n", "it did not end in time")
    assert read_answer(json.loads(json.dumps(encode_outcome(outcome)))) == outcome


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *cross(("exit_code",), (-1, 256, "0", 1.0, True, [])),
        *cross(("output", "reason"), (MISSING, None, 7, [], {})),
    ],
)
def test_hook_outcome_with_a_malformed_field_is_a_protocol_violation(field: str, value: Any) -> None:
    answer = {**encode_outcome(HookOutcome(0, "printed", "")), field: value}
    with pytest.raises(ProtocolViolation, match="the agent's answer to the hook is not valid"):
        read_answer({name: value for name, value in answer.items() if value is not MISSING})


def test_reason_of_a_hook_outcome_is_cut_at_its_limit() -> None:
    reasons = [
        read_answer(encode_outcome(HookOutcome(None, "", "y" * size))).reason for size in (MAX_REASON, MAX_REASON + 1)
    ]
    assert reasons == ["y" * MAX_REASON] * 2


@pytest.mark.parametrize(
    ("output", "is_cut", "expected"),
    [
        ("", False, ""),
        ("x" * MAX_OUTPUT, False, "x" * MAX_OUTPUT),
        ("x" * (MAX_OUTPUT + 1), False, "x" * (MAX_OUTPUT - len(MORE)) + MORE),
        ("x", True, "x" + MORE),
        ("x" * MAX_OUTPUT, True, "x" * (MAX_OUTPUT - len(MORE)) + MORE),
        ("a\0b\ud800", False, "a\ufffdb?"),
    ],
    ids=["empty", "full", "too long", "cut before", "full and cut before", "characters that cannot be stored"],
)
def test_hook_output_is_cut_at_its_limit_and_marked(output: str, is_cut: bool, expected: str) -> None:
    assert truncate_output(output, is_cut=is_cut) == expected

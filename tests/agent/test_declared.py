"""An agent that declared its connection serves nothing else, whatever its gateway requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from tests.agent.test_secrets import order

from postern.agent.declared_connection import DeclaredConnection
from postern.domain.hook import HookOutcome
from postern.domain.secret import Secret
from postern.domain.targets.connection import ConnectionType
from postern.domain.targets.declaration import Declaration
from postern.errors import Denied, Unavailable
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_hooks import Hook
from postern.relay.relay_target import Target
from postern.settings import load_agent
from postern.wiring.processes.declared_agent_process import local_policy

SHELL = Declaration("shop", ConnectionType.CUSTOM, "", ("bash",))


class StreamRequest:
    """Implements `serve.Reaching`; records the orders that stream_request it."""

    def __init__(self) -> None:
        self.orders: list[Order] = []

    async def dial(self, order: Order) -> Target:
        self.orders.append(order)
        return Target(StreamHandshake())

    async def cancel(self, order: Order, process: int, key: bytes) -> None:
        self.orders.append(order)

    async def hook(self, order: Order, hook: Hook) -> HookOutcome:
        self.orders.append(order)
        return HookOutcome(0)


def asked(**changes: object) -> Order:
    fields = {"type": ConnectionType.CUSTOM, "subtype": "", "command": ("bash",)}
    return replace(order({}), **{**fields, **changes})  # type: ignore[arg-type]


async def test_order_is_completed_with_the_declared_command_and_local_secrets() -> None:
    stream_request = StreamRequest()
    agent = DeclaredConnection(stream_request, SHELL, {"APP": Secret("größe")})
    await agent.dial(asked())
    await agent.cancel(asked(), 1, b"k")
    for one in stream_request.orders:
        assert (one.type, one.subtype, one.command) == (ConnectionType.CUSTOM, "", ("bash",))
        assert {key: value.reveal() for key, value in one.secret.items()} == {"envvar:APP": "Z3LDtsOfZQ=="}


async def test_attack_command_and_secrets_of_the_gateway_are_ignored() -> None:
    stream_request = StreamRequest()
    hostile = asked(command=("rm", "-rf", "/"), secret={"envvar:LD_PRELOAD": Secret("ZXZpbA==")})
    await DeclaredConnection(stream_request, SHELL, {}).dial(hostile)
    assert (stream_request.orders[0].command, stream_request.orders[0].secret) == (("bash",), {})


async def test_attack_order_for_another_connection_is_denied() -> None:
    stream_request = StreamRequest()
    agent = DeclaredConnection(stream_request, SHELL, {"APP": Secret("a")})
    other, hook = asked(connection="other"), Hook(uuid4(), "print(1)", "", 60)
    for work in (agent.dial(other), agent.cancel(other, 1, b""), agent.hook(other, hook)):
        with pytest.raises(Denied, match="serves only connection 'shop', which it declared"):
            await work
    assert not stream_request.orders


async def test_order_of_another_connection_type_is_unavailable() -> None:
    stream_request = StreamRequest()
    with pytest.raises(Unavailable, match="start all of them with the same arguments"):
        await DeclaredConnection(stream_request, SHELL, {}).dial(order({}))
    assert not stream_request.orders


@pytest.mark.parametrize(("policy", "runs"), [("", False), ("commands = true", False), ("hooks = true", True)])
def test_declaring_agent_runs_session_hooks_only_if_its_policy_allows_them(
    tmp_path: Path, policy: str, runs: bool
) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(policy)
    given = load_agent({"POSTERN_KEY": "planted"}, agent_policy=str(file) if policy else None)
    assert local_policy(given).hooks is runs

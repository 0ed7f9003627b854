"""What of this machine's environment connections may refer to."""

from __future__ import annotations

import base64
from uuid import UUID, uuid4

import pytest

from postern.agent.dial import EmbeddedAgent
from postern.domain.connection import Connection, ConnectionType
from postern.domain.secret import Secret
from postern.errors import Unavailable
from postern.wiring.worker import _referable

ENVIRON = {"SHOP": '{"PASS": "hunter2"}', "POSTERN_OIDC_CLIENT_SECRET": '{"PASS": "hunter2"}'}


def connection(org_id: UUID, variable: str = "SHOP") -> Connection:
    secret = {"envvar:HOST": Secret(base64.b64encode(b"db").decode())}
    secret["envvar:PASS"] = Secret(f"_envjson:{variable}:PASS")
    return Connection(uuid4(), org_id, "shop", ConnectionType.DATABASE, "postgres", uuid4(), secret=secret)


def test_attack_049_references_are_for_the_machines_own_organisation() -> None:
    owner = uuid4()
    agent = EmbeddedAgent(ENVIRON, timeout=1, owner=owner)
    assert agent._environment_of(connection(owner))["PASS"] == Secret("hunter2")
    with pytest.raises(Unavailable, match="has no 'SHOP'"):
        agent._environment_of(connection(uuid4()))
    with pytest.raises(Unavailable, match="has no 'SHOP'"):
        EmbeddedAgent(ENVIRON, timeout=1, owner=None)._environment_of(connection(owner))


def test_the_gateways_own_settings_are_not_referred_to() -> None:
    owner = uuid4()
    agent = EmbeddedAgent(_referable(ENVIRON), timeout=1, owner=owner)
    with pytest.raises(Unavailable, match="has no 'POSTERN_OIDC_CLIENT_SECRET'"):
        agent._environment_of(connection(owner, "POSTERN_OIDC_CLIENT_SECRET"))

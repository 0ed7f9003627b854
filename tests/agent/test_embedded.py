"""What of this machine's environment connections may refer to."""

from __future__ import annotations

import asyncio
import base64
from uuid import UUID, uuid4

import pytest

from postern.agent.embedded import EmbeddedAgent
from postern.domain.connection import Connection, ConnectionType
from postern.domain.permit import Permit, seal
from postern.domain.policy import Policy
from postern.domain.principal import Principal
from postern.domain.secret import Secret
from postern.domain.session import Verb
from postern.errors import Unavailable
from postern.relay.target import Start
from postern.wiring.worker import referable

# The port is a reference: where it can be resolved the target is dialled, and is not there.
ENVIRON = {"SHOP": '{"PORT": "1"}', "POSTERN_OIDC_CLIENT_SECRET": '{"PORT": "1"}'}
REACHED = "127.0.0.1:1 cannot be reached"


def dial(agent: EmbeddedAgent, org_id: UUID, variable: str = "SHOP") -> None:
    secret = {f"envvar:{name}": Secret(base64.b64encode(b"127.0.0.1").decode()) for name in ("HOST", "USER")}
    secret["envvar:PORT"] = Secret(f"_envjson:{variable}:PORT")
    connection = Connection(uuid4(), org_id, "shop", ConnectionType.DATABASE, "postgres", uuid4(), secret=secret)
    ann = Principal(uuid4(), org_id, "ann", "ann@example.com", "Ann")
    permit = Permit(ann, connection, Policy(), Verb.CONNECT, "127.0.0.1", None, None, seal())
    asyncio.run(agent.dial(permit, Start(), uuid4()))


def test_attack_049_references_are_for_the_machines_own_organisation() -> None:
    owner = uuid4()
    agent = EmbeddedAgent(ENVIRON, timeout=1, owner=owner)
    with pytest.raises(Unavailable, match=REACHED):
        dial(agent, owner)
    with pytest.raises(Unavailable, match="has no 'SHOP'"):
        dial(agent, uuid4())
    with pytest.raises(Unavailable, match="has no 'SHOP'"):
        dial(EmbeddedAgent(ENVIRON, timeout=1, owner=None), owner)


def test_the_gateways_own_settings_are_not_referred_to() -> None:
    owner = uuid4()
    agent = EmbeddedAgent(referable(ENVIRON), timeout=1, owner=owner)
    with pytest.raises(Unavailable, match="has no 'POSTERN_OIDC_CLIENT_SECRET'"):
        dial(agent, owner, "POSTERN_OIDC_CLIENT_SECRET")

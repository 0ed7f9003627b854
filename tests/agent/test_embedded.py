"""What connections can refer to in the environment of the gateway's machine."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from postern.agent.embedded import EmbeddedAgent
from postern.domain.hook import HookOutcome
from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit, seal
from postern.domain.rules.policy import Policy
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection, ConnectionType
from postern.errors import Denied, Unavailable
from postern.relay.relay_hooks import Hook
from postern.relay.relay_target import Start
from postern.settings import load
from postern.wiring.processes.worker_process import embedded_agent

# The port is a reference: where it can be resolved the target is dialled, and is not there.
ENVIRON = {"SHOP": '{"PORT": "1"}', "POSTERN_OIDC_CLIENT_SECRET": '{"PORT": "1"}'}
REACHED = "127.0.0.1:1 cannot be reached"
NOT_THEIRS = "cannot use secrets of the gateway's machine"


def agent(tmp_path: Path, owner: UUID | None) -> EmbeddedAgent:
    return embedded_agent(load({}, home=str(tmp_path), dial_timeout=60), ENVIRON, owner)


def dial(agent: EmbeddedAgent, org_id: UUID, reference: str = "_envjson:SHOP:PORT") -> None:
    secret = {f"envvar:{name}": Secret(base64.b64encode(b"127.0.0.1").decode()) for name in ("HOST", "USER")}
    secret["envvar:PORT"] = Secret(reference)
    connection = Connection(uuid4(), org_id, "shop", ConnectionType.DATABASE, "postgres", uuid4(), secret=secret)
    ann = Principal(uuid4(), org_id, "ann", "ann@example.com", "Ann")
    permit = Permit(ann, connection, Policy(), Verb.CONNECT, "127.0.0.1", None, None, seal())
    asyncio.run(agent.dial(permit, Start(), uuid4()))


def test_attack_049_environment_references_work_only_for_the_machines_own_organisation(tmp_path: Path) -> None:
    owner = uuid4()
    with pytest.raises(Unavailable, match=REACHED):
        dial(agent(tmp_path, owner), owner)
    with pytest.raises(Unavailable, match=NOT_THEIRS):
        dial(agent(tmp_path, owner), uuid4())
    with pytest.raises(Unavailable, match=NOT_THEIRS):
        dial(agent(tmp_path, None), owner)


@pytest.mark.parametrize("provider", ["_aws", "_azure", "_cloudprov", "_gcp", "_vaultkv1", "_vaultkv2"])
def test_attack_another_organisation_cannot_use_the_machines_cloud_role(tmp_path: Path, provider: str) -> None:
    with pytest.raises(Unavailable, match=NOT_THEIRS):
        dial(agent(tmp_path, uuid4()), uuid4(), f"{provider}:prod:PORT")


def test_denial_states_how_to_enable_commands_only_to_the_operators_organisation(tmp_path: Path) -> None:
    owner, other = uuid4(), uuid4()
    for org_id, commands, may in ((owner, False, True), (other, False, False), (other, True, False)):
        settings = load({}, home=str(tmp_path), gateway_commands=commands)
        connection = Connection(uuid4(), org_id, "shell", ConnectionType.CUSTOM, "", uuid4(), command=("bash",))
        ann = Principal(uuid4(), org_id, "ann", "ann@example.com", "Ann")
        permit = Permit(ann, connection, Policy(), Verb.CONNECT, "127.0.0.1", None, None, seal())
        with pytest.raises(Denied, match="postern connections update shell --agent NAME") as refused:
            asyncio.run(embedded_agent(settings, ENVIRON, owner).dial(permit, Start(), uuid4()))
        assert ("POSTERN_GATEWAY_COMMANDS=true" in refused.value.message) is may


def test_session_hooks_run_only_for_the_operators_organisation_with_commands_enabled(tmp_path: Path) -> None:
    owner, other = uuid4(), uuid4()
    hook = Hook(uuid4(), "print(1)", "", 60)
    for org_id, commands, runs, may in (
        (owner, True, True, True),
        (owner, False, False, True),
        (other, True, False, False),
    ):
        settings = load({}, home=str(tmp_path), gateway_commands=commands)
        connection = Connection(uuid4(), org_id, "shop", ConnectionType.DATABASE, "postgres", uuid4())
        ann = Principal(uuid4(), org_id, "ann", "ann@example.com", "Ann")
        permit = Permit(ann, connection, Policy(), Verb.CONNECT, "127.0.0.1", None, None, seal())
        work = embedded_agent(settings, {"PATH": "/usr/bin:/bin"}, owner).hook(permit, uuid4(), hook)
        if runs:
            assert asyncio.run(work) == HookOutcome(0, "1\n")
            continue
        with pytest.raises(Denied, match="postern connections update shop --agent NAME") as refused:
            asyncio.run(work)
        assert ("POSTERN_GATEWAY_COMMANDS=true" in refused.value.message) is may


def test_gateway_settings_cannot_be_referred_to(tmp_path: Path) -> None:
    owner = uuid4()
    with pytest.raises(Unavailable, match="has no 'POSTERN_OIDC_CLIENT_SECRET'"):
        dial(agent(tmp_path, owner), owner, "_envjson:POSTERN_OIDC_CLIENT_SECRET:PORT")

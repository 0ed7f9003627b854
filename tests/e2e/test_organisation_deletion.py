"""An organisation is deleted while its sessions run at a real worker."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from tests.support.gateway import Gateway
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until

from postern.archive.folder import FolderBlobs
from postern.domain.identity.principal import Account, Principal, PrincipalStatus
from postern.domain.lists import Page
from postern.domain.targets.agent import AgentMode
from postern.recording.purged import delete_local
from postern.services.server.organisation_deletion import OrganisationDeleter
from postern.services.targets.agents import EMBEDDED
from postern.store.ports.target_ports import SessionFilter
from postern.wiring.app import now


@pytest.fixture(scope="module")
def gateway(target: PostgresServer) -> Iterator[Gateway]:
    running = Gateway()
    try:
        running.start()
        running.connection("target", target)
        yield running
    finally:
        running.stop()


@pytest.fixture
def boss(gateway: Gateway, target: PostgresServer) -> Principal:
    """The administrator of another organisation, which has a connection `theirs`."""
    made = gateway.call(
        gateway.services.organisations.create(gateway.admin, "Acme", "boss@acme.example", embedded_agent=True)
    )
    active = replace(made.admin, status=PrincipalStatus.ACTIVE)
    gateway.call(gateway.stores.principals.update(Account(active), now()))
    account = gateway.call(gateway.stores.principals.get(active.org_id, active.id))
    assert account is not None
    own, admin = gateway._agent, gateway.admin
    agent = gateway.call(gateway.stores.agents.get(active.org_id, EMBEDDED))
    assert agent is not None
    assert agent.mode is AgentMode.GATEWAY
    gateway._agent, gateway.admin = agent, account.principal
    gateway.connection("theirs", target)
    gateway._agent, gateway.admin = own, admin
    return account.principal


def test_deleted_organisations_sessions_end_and_its_users_cannot_log_in(
    gateway: Gateway, boss: Principal, tmp_path: Path
) -> None:
    services, home = gateway.services, Path(gateway.home)
    url = gateway.url("theirs", issued=gateway.credential("theirs", principal=boss))
    with psycopg.connect(url) as theirs, psycopg.connect(gateway.url("target")) as ours:
        theirs.autocommit = ours.autocommit = True
        assert theirs.execute("select 1").fetchone() == (1,)
        assert ours.execute("select 1").fetchone() == (1,)
        gateway.call(services.organisations.delete(gateway.admin, str(boss.org_id), "Acme"))

        def ended() -> bool:
            try:
                theirs.execute("select 1")
            except psycopg.OperationalError:
                return True
            return False

        wait_until(ended)
        assert ours.execute("select 2").fetchone() == (2,)
        with pytest.raises(psycopg.OperationalError, match="password is wrong"):
            psycopg.connect(url)
        deleter = OrganisationDeleter(
            leases=gateway.stores.leases,
            store=gateway.stores.organisation_deletions,
            blobs=FolderBlobs(tmp_path),
            clean=functools.partial(delete_local, home),
            audit=services.audit,
            operators=services.operators,
            signals=services.signals,
            now=now,
        )
        wait_until(lambda: gateway.call(deleter.once()) == 1)
        names = [one.name for one in gateway.call(services.organisations.find(gateway.admin, Page())).items]
        assert names == ["default"]
        left = gateway.call(gateway.stores.sessions.find(boss.org_id, SessionFilter(), Page()))
        assert left.total == 0
        assert ours.execute("select 3").fetchone() == (3,)
    assert gateway.worker.running

"""Deletion of an organisation: who may, what confirms it, what forbids it, and that it ends whatever interrupts it."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pytest
from tests.support.recorded import Records
from tests.support.recordings import BrokenBlobs
from tests.support.world import World

from postern.archive.folder import FolderBlobs
from postern.domain.identity.organisation import DEFAULT, Organisation
from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.lists import Page
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.recording.purged import delete_local
from postern.services.bundle import Services
from postern.services.server import organisation_deletion
from postern.services.server.audit_context import collect_change
from postern.services.server.organisation_deletion import ENDING, RETRY, OrganisationDeleter
from postern.store.ports.common_ports import Topic
from postern.store.ports.server_ports import AuditFilter

pytestmark = pytest.mark.ci


@dataclass
class Site:
    """Two organisations beside the default one, each with recorded sessions."""

    world: World
    services: Services
    operator: Principal
    doomed: Records
    other: Records
    acme: Organisation
    blobs: BrokenBlobs
    home: Path

    def deleter(self) -> OrganisationDeleter:
        """As after a start of the process."""
        stores, made = self.world.stores, self.services
        clean = functools.partial(delete_local, self.home)
        return OrganisationDeleter(
            leases=stores.leases,
            store=stores.organisation_deletions,
            blobs=self.blobs,
            clean=clean,
            audit=made.audit,
            operators=made.operators,
            signals=made.signals,
            now=self.world.clock,
        )

    async def round(self) -> int:
        deleter = self.deleter()
        try:
            return await deleter.once()
        finally:
            await deleter.stop()

    async def delete(self) -> Organisation:
        return await self.services.organisations.delete(self.operator, str(self.acme.id), self.acme.name)

    async def names(self) -> list[str]:
        return [one.name for one in (await self.services.organisations.find(self.operator, Page())).items]


async def settle(records: Records) -> None:
    services = records.services()
    while await services.postprocessing.once():
        pass
    await services.ledger.write()


@pytest.fixture
async def site(world: World, tmp_path: Path) -> Site:
    operator = await world.add_user("root", "admin")
    made, folder = [], tmp_path / "recordings"
    folder.mkdir()
    for name in ("Acme", "Other"):
        organisation = Organisation(uuid4(), name, world.clock())
        await world.stores.organisations.add(organisation)
        records = await Records.make(replace(world, org_id=organisation.id), folder)
        for _ in range(3):
            await records.recorded(2)
        made.append((organisation, records))
    (acme, doomed), (_, other) = made
    await settle(doomed)
    blobs = BrokenBlobs(FolderBlobs(folder))
    return Site(world, world.services(doomed.machine()), operator, doomed, other, acme, blobs, tmp_path)


async def test_everything_is_deleted_and_other_records_still_verify(site: Site) -> None:
    services = site.other.services()
    await services.checkpoints.make(site.other.user)
    before = await services.verifier.verify(site.other.world.org_id)
    deleted = await site.delete()
    assert deleted.deleting_at is not None
    assert await site.names() == ["Acme", "Other", DEFAULT]
    assert await site.round() == 1
    assert await site.names() == ["Other", DEFAULT]
    files = {path.name for path in site.doomed.folder.iterdir()}
    kept = {
        segment.place
        for segment in await site.world.stores.organisation_deletions.segments(site.other.world.org_id, 99)
    }
    assert files == kept
    assert len(kept) == 6
    after = await services.verifier.verify(site.other.world.org_id)
    assert after.is_good
    assert after == before
    await settle(replace(site.doomed, world=site.world, user=site.operator))
    await site.services.checkpoints.make(site.operator)
    own = await site.services.verifier.verify(site.world.org_id)
    assert own.is_good


async def test_it_is_audited_where_it_was_asked_for(site: Site) -> None:
    with collect_change() as trail:
        await site.delete()
    assert isinstance(trail.before, dict)
    assert (trail.before["users"], trail.before["sessions"]) == (1, 3)
    number, head = trail.before["ledger"]
    assert number > 0
    assert len(head) == 64
    await site.round()
    found = await site.world.stores.audit.find(site.world.org_id, AuditFilter(resource_type="orgs"), Page())
    assert [(one.action, one.resource, one.actor_subject) for one in found.items] == [("delete", "Acme", "gateway")]


async def test_only_people_who_run_the_server_may(site: Site) -> None:
    member = await site.world.add_user("ann")
    key = replace(site.operator, kind=PrincipalKind.MACHINE)
    for principal in (site.doomed.user, site.other.user, member, key):
        with pytest.raises(Denied):
            await site.services.organisations.delete(principal, str(site.acme.id), "Acme")
    assert await site.names() == ["Acme", "Other", DEFAULT]


@pytest.mark.parametrize("name", ["", "acme", "Acme ", "Other", DEFAULT])
async def test_name_must_be_given_exactly(site: Site, name: str) -> None:
    with pytest.raises(Invalid, match="name"):
        await site.services.organisations.delete(site.operator, str(site.acme.id), name)


async def test_organisation_that_runs_the_server_stays(site: Site) -> None:
    with pytest.raises(Conflict, match="runs this server"):
        await site.services.organisations.delete(site.operator, str(site.world.org_id), DEFAULT)


@pytest.mark.parametrize("key", ["Acme", "", "not-an-id", "2f1c6c1e-6c0f-4f43-9a3d-0d0c3f5b7a11"])
async def test_unknown_identifier_is_not_found(site: Site, key: str) -> None:
    with pytest.raises(NotFound):
        await site.services.organisations.delete(site.operator, key, "Acme")


async def test_two_administrators_at_once_delete_once(site: Site) -> None:
    second = await site.world.add_user("second", "admin")
    wanted = [site.services.organisations.delete(who, str(site.acme.id), "Acme") for who in (site.operator, second)]
    outcomes = await asyncio.gather(*wanted, return_exceptions=True)
    assert sorted(type(one).__name__ for one in outcomes) == ["Conflict", "Organisation"]
    with pytest.raises(Conflict, match="already being deleted"):
        await site.delete()
    assert await site.round() == 1
    with pytest.raises(NotFound):
        await site.delete()


async def test_legal_hold_forbids_it_until_it_is_released(site: Site) -> None:
    services, user = site.doomed.services(), site.doomed.user
    session = next(iter(await site.world.stores.organisation_deletions.segments(site.acme.id, 1))).session_id
    await services.holds.set(user, session, "case-1", "asked by the court")
    with pytest.raises(Conflict, match=f"'case-1' on session {session}"):
        await site.delete()
    # Whoever deletes the row in the database frees nothing.
    await site.doomed.sql("delete from holds")
    with pytest.raises(Conflict, match="the hold is gone from the store"):
        await site.delete()


async def test_hold_comes_too_late_once_it_is_being_deleted(site: Site) -> None:
    session = next(iter(await site.world.stores.organisation_deletions.segments(site.acme.id, 1))).session_id
    await site.delete()
    with pytest.raises(Conflict, match="is being deleted"):
        await site.doomed.services().holds.set(site.doomed.user, session, "case-1", "asked by the court")


async def test_sessions_and_agents_are_cut_off_at_once(site: Site) -> None:
    running = await site.doomed.open()
    await site.doomed.sql("update sessions set worker = 'w1' where id = :id", id=site.doomed.key_of(running))
    agent = (await site.world.stores.organisation_deletions.agents(site.acme.id))[0]
    await site.delete()
    assert {"agent_id": str(agent), "change": "deleted"} in site.world.signals.of(Topic.AGENT_CHANGED)
    assert {"org_id": str(site.acme.id)} in site.world.signals.of(Topic.POLICY_CHANGED)
    assert await site.round() == 0
    assert [one["session_id"] for one in site.world.signals.of(Topic.SESSION_KILL)] == [str(running)]
    assert "Acme" in await site.names()
    await site.doomed.end(running)
    assert await site.round() == 1


async def test_session_of_a_dead_worker_holds_it_up_for_a_while_only(site: Site) -> None:
    running = await site.doomed.open()
    await site.doomed.sql("update sessions set worker = 'w1' where id = :id", id=site.doomed.key_of(running))
    await site.delete()
    assert await site.round() == 0
    site.world.clock.forward(seconds=ENDING.total_seconds() + 1)
    assert await site.round() == 1


class Killed(BaseException):
    """The process is killed at this point."""


STEPS = ("invalidate", "segments", "forget_segments", "sessions", "forget_sessions", "forget_rows", "finish")


@pytest.mark.parametrize("step", STEPS)
async def test_kill_anywhere_is_made_up_for(site: Site, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(organisation_deletion, "SEGMENTS", 2)
    monkeypatch.setattr(organisation_deletion, "SESSIONS", 1)
    monkeypatch.setattr(organisation_deletion, "ROWS", 5)
    await site.delete()
    deleter, seen = site.deleter(), Counter[str]()
    store = site.world.stores.organisation_deletions

    class Dying:
        def __getattr__(self, name: str) -> object:
            method = getattr(store, name)

            async def call(*arguments: object) -> object:
                seen[name] += 1
                done = await method(*arguments)
                if name == step and seen[name] == 2 - (step in ("invalidate", "finish")):
                    raise Killed  # what this step did is done, and nothing knows of it
                return done

            return call

    deleter._store = Dying()  # type: ignore[assignment]
    with pytest.raises(Killed):
        await deleter.once()
    await deleter.stop()
    while "Acme" in await site.names():
        await site.round()
    kept = await store.segments(site.other.world.org_id, 99)
    assert {path.name for path in site.doomed.folder.iterdir()} == {segment.place for segment in kept}


async def test_blob_store_that_is_away_is_tried_again(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    await site.delete()
    site.blobs.trouble = "it is away"
    deleter = site.deleter()
    assert await deleter.once() == 0
    assert "organisation not deleted yet, retrying: org='Acme'" in caplog.text
    site.blobs.trouble = ""
    assert await deleter.once() == 0  # not before a while
    site.world.clock.forward(seconds=RETRY.total_seconds() + 1)
    assert await deleter.once() == 1


async def test_row_that_points_elsewhere_deletes_no_blob_of_others(site: Site) -> None:
    store = site.world.stores.organisation_deletions
    foreign = (await store.segments(site.other.world.org_id, 1))[0]
    await site.doomed.sql(
        "update segments set place = :place where org_id = :org and number = 1",
        place=foreign.place,
        org=site.doomed.key_of(site.acme.id),
    )
    await site.delete()
    assert await site.round() == 1
    assert (site.doomed.folder / foreign.place).exists()


async def test_files_on_this_machine_go_too(site: Site) -> None:
    session = (await site.world.stores.organisation_deletions.segments(site.acme.id, 1))[0].session_id
    folder = site.home / "spool" / "w1"
    folder.mkdir(parents=True)
    for key in (session, uuid4()):
        (folder / f"{key}.000001.rec").write_bytes(b"x")
    await site.delete()
    assert await site.round() == 1
    assert [path.name for path in folder.iterdir() if path.name.startswith(str(session))] == []
    assert len(list(folder.iterdir())) == 1


async def test_only_one_process_deletes(site: Site) -> None:
    await site.delete()
    first, second = site.deleter(), site.deleter()
    site.blobs.trouble = "it is away"
    assert await first.once() == 0
    site.blobs.trouble = ""
    assert await second.once() == 0
    await first.stop()
    assert await second.once() == 1

"""Target tasks from the request to the worker, over one store; the test plays the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select
from tests.support.promises import until
from tests.support.world import World

from postern.domain.features import Feature
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.runbook import RunbookPattern, RunbookRule
from postern.domain.secret import Secret
from postern.domain.targets.connection import Toggle
from postern.domain.targets.target_task import (
    MAX_ANSWER,
    Failure,
    TargetStatus,
    TargetTask,
    TargetTaskAnswer,
    TargetTaskKind,
    TargetTest,
)
from postern.errors import Denied, Invalid, Malformed, NotFound, PosternError, TooMany, Unavailable, Unreachable
from postern.services.bundle import Services
from postern.services.targets import target_tasks as module
from postern.services.targets.connections import ConnectionFilter, ConnectionView
from postern.services.targets.target_tasks import TargetTasks
from postern.store.ports.common_ports import Topic
from postern.store.schema.target_tables import target_tasks as table

pytestmark = pytest.mark.ci

OFF: dict[str, Any] = {"access_mode_connect": Toggle.DISABLED, "access_mode_exec": Toggle.DISABLED}


class Worker:
    """Claims what is signalled and answers it by `answers`; remembers what it claimed."""

    def __init__(self, world: World, target_tasks: TargetTasks, answer: TargetTaskAnswer, name: str = "w1") -> None:
        self._target_tasks = target_tasks
        self._answer = answer
        self._name = name
        self._tasks: set[asyncio.Task[None]] = set()
        self.claimed: list[TargetTask] = []
        world.signals.subscribe(Topic.TARGET_TASK_RUN, self._on_run)

    def _on_run(self, payload: Mapping[str, str]) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(self._run(UUID(payload["target_task_id"]))))

    async def _run(self, task_id: UUID) -> None:
        found = await self._target_tasks.claim(task_id, self._name)
        if found is not None:
            self.claimed.append(found[0])
            await self._target_tasks.answer(task_id, self._name, self._answer)


@pytest.fixture
def target_tasks(world: World) -> TargetTasks:
    return world.services().target_tasks


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann", "dba")


async def ask(
    target_tasks: TargetTasks,
    who: Principal,
    kind: TargetTaskKind = TargetTaskKind.TEST,
    *,
    wait: float = 60.0,
    **given: str | None,
) -> TargetTaskAnswer:
    return await target_tasks.ask(who, "shop", kind, given, source="192.0.2.1", wait=wait)


async def heard(world: World, count: int = 1) -> None:
    """Until so many tasks were signalled."""
    await until(lambda: len(world.signals.of(Topic.TARGET_TASK_RUN)) >= count)


async def rows_of(world: World) -> int:
    async with world.database.statement() as connection:
        return int((await connection.execute(select(func.count()).select_from(table))).scalar_one())


async def test_one_of_two_workers_answers_and_nothing_is_left(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    connection = await world.add_connection()
    answer = TargetTaskAnswer({"schemas": [{"name": "grüße", "tables": ["a"]}]}, truncated=True)
    workers = [Worker(world, target_tasks, answer, name) for name in ("w1", "w2")]
    assert await ask(target_tasks, ann, TargetTaskKind.TABLES, database="shop", schema=None) == answer
    await asyncio.sleep(0.05)
    (target_task,) = [target_task for worker in workers for target_task in worker.claimed]
    assert (target_task.kind, target_task.arguments, target_task.source) == (
        TargetTaskKind.TABLES,
        {"database": "shop"},
        "192.0.2.1",
    )
    assert (target_task.connection_id, target_task.principal_id) == (connection.id, ann.id)
    assert await rows_of(world) == 0


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Failure.FAILED, Malformed),
        (Failure.AWAY, Unreachable),
        (Failure.MISSING, NotFound),
        (Failure.REFUSED, Denied),
    ],
)
async def test_a_failure_is_raised_with_its_reason(
    world: World, target_tasks: TargetTasks, ann: Principal, failure: Failure, error: type[PosternError]
) -> None:
    await world.add_connection()
    Worker(world, target_tasks, TargetTaskAnswer({}, failure=failure, reason="the target said no"))
    with pytest.raises(error, match="the target said no"):
        await ask(target_tasks, ann)


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (TargetTaskAnswer({"success": True}), TargetStatus.OK, ""),
        (TargetTaskAnswer({}, failure=Failure.FAILED, reason="no such role"), TargetStatus.FAILED, "no such role"),
        (
            TargetTaskAnswer({}, failure=Failure.AWAY, reason="cannot be reached"),
            TargetStatus.FAILED,
            "cannot be reached",
        ),
        (TargetTaskAnswer({}, failure=Failure.REFUSED, reason="not yours"), TargetStatus.UNTESTED, ""),
    ],
)
async def test_last_test_of_a_connection_is_stored(
    world: World, ann: Principal, answer: TargetTaskAnswer, status: TargetStatus, reason: str
) -> None:
    services = world.services()
    await world.add_connection(place=uuid4())
    await world.add_connection("other", place=uuid4())
    Worker(world, services.target_tasks, answer)
    assert (await _view(services, ann, "shop")).target_status is TargetStatus.UNTESTED
    for _ in range(2):  # a second test replaces the first
        world.clock.forward(seconds=1)
        with suppress(Malformed, Denied):
            await ask(services.target_tasks, ann)
    view = await _view(services, ann, "shop")
    assert view.target_status is status
    if view.last_test is not None:
        assert (view.last_test.reason, view.last_test.tested_at) == (reason, world.clock())
    assert (await _view(services, ann, "other")).last_test is None
    (listed, _) = sorted(
        (await services.connections.search(ann, ConnectionFilter(), Page())).items, key=_name, reverse=True
    )
    assert listed == view


async def _view(services: Services, who: Principal, name: str) -> ConnectionView:
    return await services.connections.view(await services.connections.get(who, name))


def _name(view: ConnectionView) -> str:
    return view.connection.name


async def test_last_test_is_of_where_the_connection_leads_and_goes_with_it(
    world: World, target_tasks: TargetTasks
) -> None:
    services, root = world.services(), await world.add_user("root", "admin")
    made = await world.add_connection(place=uuid4())
    Worker(world, services.target_tasks, TargetTaskAnswer({"success": True}))
    await ask(services.target_tasks, root)
    assert (await _view(services, root, "shop")).target_status is TargetStatus.OK
    host = {"secret": {"envvar:HOST": Secret("b3RoZXI="), "envvar:USER": None}}
    await services.connections.update(root, "shop", host)
    assert (await _view(services, root, "shop")).target_status is TargetStatus.UNTESTED
    await ask(services.target_tasks, root)
    await services.connections.remove(root, "shop")
    assert await world.stores.target_tasks.last_tests([made.id]) == {}
    late = TargetTest(made.id, made.org_id, uuid4(), succeeded=True, reason="", tested_at=world.clock())
    await world.stores.target_tasks.save_test(late)  # a test that ends after the connection was deleted
    assert await world.stores.target_tasks.last_tests([made.id]) == {}


async def test_without_a_worker_it_ends_in_time_and_is_not_begun_later(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    await world.add_connection()
    with pytest.raises(Unavailable, match="no relay worker"):
        await ask(target_tasks, ann, wait=0.1)
    (told,) = world.signals.of(Topic.TARGET_TASK_RUN)
    assert await target_tasks.claim(UUID(told["target_task_id"]), "late") is None
    assert await rows_of(world) == 0


async def test_a_worker_that_never_answers_is_not_waited_for_longer(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    await world.add_connection()
    asked = asyncio.create_task(ask(target_tasks, ann, wait=3))
    await heard(world)
    task_id = UUID(world.signals.of(Topic.TARGET_TASK_RUN)[0]["target_task_id"])
    assert await target_tasks.claim(task_id, "w1") is not None
    with pytest.raises(Unavailable, match="did not answer within"):
        await asked


async def test_an_answer_that_no_signal_told_of_is_found(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    await world.add_connection()
    asked = asyncio.create_task(ask(target_tasks, ann, wait=60))
    await heard(world)
    task_id = UUID(world.signals.of(Topic.TARGET_TASK_RUN)[0]["target_task_id"])
    assert await target_tasks.claim(task_id, "w1") is not None
    text = '{"result": {"success": true}, "truncated": false, "failure": null, "reason": ""}'
    assert await world.stores.target_tasks.answer(task_id, "w1", text, world.clock())
    assert (await asked).result == {"success": True}


async def test_a_worker_that_did_not_claim_it_cannot_answer(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    await world.add_connection()
    asked = asyncio.create_task(ask(target_tasks, ann, wait=3))
    await heard(world)
    task_id = UUID(world.signals.of(Topic.TARGET_TASK_RUN)[0]["target_task_id"])
    assert await target_tasks.claim(task_id, "w1") is not None
    await target_tasks.answer(task_id, "w2", TargetTaskAnswer({"success": True}))
    with pytest.raises(Unavailable):
        await asked


async def test_what_was_asked_before_is_refused_once_it_may_not_be(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    """The rules changed between the question and the worker that takes it up."""
    connection = await world.add_connection()
    asked = asyncio.create_task(ask(target_tasks, ann, TargetTaskKind.DATABASES))
    await heard(world)
    await world.overwrite(connection, access_schema=Toggle.DISABLED)
    task_id = UUID(world.signals.of(Topic.TARGET_TASK_RUN)[0]["target_task_id"])
    assert await target_tasks.claim(task_id, "w1") is None
    with pytest.raises(Denied, match="schema"):
        await asked


async def test_the_schema_is_switched_by_access_schema_and_the_test_is_not(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    await world.add_connection(access_schema=Toggle.DISABLED)
    Worker(world, target_tasks, TargetTaskAnswer({"success": True}))
    for kind in (TargetTaskKind.DATABASES, TargetTaskKind.TABLES, TargetTaskKind.COLUMNS):
        with pytest.raises(Denied, match="access_schema is disabled"):
            await ask(target_tasks, ann, kind, table="t")
    assert (await ask(target_tasks, ann)).result == {"success": True}


async def test_a_connection_that_is_switched_off_is_tested_by_administrators_alone(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    await world.add_connection(**OFF, access_mode_runbooks=Toggle.DISABLED)
    Worker(world, target_tasks, TargetTaskAnswer({"success": True}))
    with pytest.raises(Denied, match="disabled"):
        await ask(target_tasks, ann)
    assert (await ask(target_tasks, await world.add_user("chief", "admin"))).result == {"success": True}


async def test_who_may_run_runbooks_there_may_test_the_connection(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    connection = await world.add_connection(**OFF, access_schema=Toggle.DISABLED)
    Worker(world, target_tasks, TargetTaskAnswer({"success": True}))
    assert (await ask(target_tasks, ann)).result == {"success": True}
    with pytest.raises(Denied, match="schema"):
        await ask(target_tasks, ann, TargetTaskKind.DATABASES)

    async def rule(groups: frozenset[str], *where: UUID) -> None:
        books, at = (RunbookPattern("git.example.com/x"),), world.clock()
        made = RunbookRule(uuid4(), world.org_id, f"{uuid4()}", "", books, frozenset(where), groups, False, at, at)
        await world.stores.runbook_rules.add(made)
        await world.signals.publish(Topic.POLICY_CHANGED, org_id=str(world.org_id))

    await rule(frozenset({"nobody"}))
    await rule(frozenset(), (await world.add_connection("stock")).id)
    with pytest.raises(Denied, match="connect is disabled"):
        await ask(target_tasks, ann)
    await rule(frozenset(), connection.id)
    assert (await ask(target_tasks, ann)).result == {"success": True}


async def test_auditors_ask_nothing_of_targets(world: World, target_tasks: TargetTasks) -> None:
    await world.add_connection()
    auditor = await world.add_user("audrey", "auditor")
    for kind in TargetTaskKind:
        with pytest.raises(Denied, match="auditors"):
            await ask(target_tasks, auditor, kind)
    assert not world.signals.of(Topic.TARGET_TASK_RUN)


async def test_a_connection_that_rules_hide_is_not_found(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    await world.add_connection()
    chief = await world.add_user("chief", "admin")
    await world.services().features.put(chief, Feature.ACCESS_CONTROL, enabled=True)
    with pytest.raises(NotFound):
        await ask(target_tasks, ann)


async def test_another_organisations_connection_is_not_found(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    await world.add_connection()
    with pytest.raises(NotFound):
        await ask(target_tasks, replace(ann, org_id=uuid4()))


async def test_a_subtype_that_nobody_speaks_says_so(world: World, target_tasks: TargetTasks, ann: Principal) -> None:
    await world.add_connection(subtype="db2")
    with pytest.raises(Malformed, match="'db2' has no connection test"):
        await ask(target_tasks, ann)


async def test_a_command_is_run_to_try_it(world: World, target_tasks: TargetTasks, ann: Principal) -> None:
    connection = await world.add_connection(subtype="", command=("bash",))
    with pytest.raises(Malformed, match=f"is a command .*; run it: postern exec {connection.name}"):
        await ask(target_tasks, ann)


@pytest.mark.parametrize("name", ["", "x" * 129, "a\0b", "a\nb", "a\x1b[31m"])
async def test_names_that_cannot_be_are_invalid(
    world: World, target_tasks: TargetTasks, ann: Principal, name: str
) -> None:
    await world.add_connection()
    for field in ("database", "schema", "table"):
        with pytest.raises(Invalid, match=field):
            await target_tasks.ask(ann, "shop", TargetTaskKind.COLUMNS, {"table": "t", field: name}, source="::1")


async def test_a_flood_of_questions_is_bounded(
    world: World, target_tasks: TargetTasks, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    await world.add_connection()
    asked = [asyncio.create_task(ask(target_tasks, ann, wait=3)) for _ in range(2)]
    await heard(world, 2)
    with pytest.raises(TooMany):
        await ask(target_tasks, ann)
    assert [type(error) for error in await asyncio.gather(*asked, return_exceptions=True)] == [Unavailable] * 2
    with pytest.raises(Unavailable):  # there is room again
        await ask(target_tasks, ann, wait=0.01)


async def test_an_answer_beyond_the_bound_is_not_stored(target_tasks: TargetTasks) -> None:
    with pytest.raises(ValueError, match="maximum size"):
        await target_tasks.answer(uuid4(), "w1", TargetTaskAnswer({"databases": ["x" * (2 * MAX_ANSWER)]}))


async def test_what_an_asker_left_behind_goes_after_minutes(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    connection = await world.add_connection()
    left = TargetTask(uuid4(), world.org_id, ann.id, connection.id, TargetTaskKind.TEST, {}, "::1", world.clock())
    await world.stores.target_tasks.add(left)
    world.clock.forward(minutes=1)
    assert await target_tasks.claim(left.id, "w1") is None  # the requester has left
    await target_tasks.prune()
    assert await rows_of(world) == 1
    world.clock.forward(minutes=5)
    await world.services().target_tasks.prune()
    assert await rows_of(world) == 0


async def test_values_of_a_previewed_script_are_sealed_in_the_store(
    world: World, target_tasks: TargetTasks, ann: Principal
) -> None:
    await world.add_connection()
    given = {"script": "select :a", "parameters": '{"a": "hidden-value"}'}
    asked = asyncio.create_task(target_tasks.ask(ann, "shop", TargetTaskKind.PREVIEW, given, source="::1", wait=60.0))
    await heard(world)
    async with world.database.statement() as connection:
        (row,) = (await connection.execute(select(table.c.id, table.c.arguments))).all()
    assert row.arguments["script"] == "select :a"
    assert "hidden-value" not in row.arguments["parameters"]
    claimed = await target_tasks.claim(row.id, "w1")
    assert claimed is not None
    assert claimed[0].arguments == given
    await target_tasks.answer(row.id, "w1", TargetTaskAnswer({"outcome": "allow"}))
    assert (await asked).result == {"outcome": "allow"}

"""A worker that answers every target task as a test says, without any target."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import UUID

from tests.support.world import World

from postern.domain.targets.target_task import TargetTaskAnswer, TargetTaskKind
from postern.services.targets.target_tasks import TargetTasks
from postern.store.ports.common_ports import Topic

SMALL: Mapping[TargetTaskKind, TargetTaskAnswer] = {
    TargetTaskKind.TEST: TargetTaskAnswer({"success": True}),
    TargetTaskKind.DATABASES: TargetTaskAnswer({"databases": ["shop"]}),
    TargetTaskKind.TABLES: TargetTaskAnswer({"schemas": [{"name": "public", "tables": ["orders"]}]}),
    TargetTaskKind.COLUMNS: TargetTaskAnswer({"columns": [{"name": "id", "type": "integer", "nullable": False}]}),
    TargetTaskKind.SCHEMA: TargetTaskAnswer({"database": "shop", "databases": ["shop"], "schemas": []}),
    TargetTaskKind.PREVIEW: TargetTaskAnswer(
        {
            "outcome": "allow",
            "messages": [],
            "held_by": [],
            "statements": [],
            "statements_truncated": False,
            "syntax_error": None,
        }
    ),
}


def answer_target_tasks(
    world: World, target_tasks: TargetTasks, answers: Mapping[TargetTaskKind, TargetTaskAnswer]
) -> list[Mapping[str, str]]:
    """From now on; what was asked is in the list."""
    asked: list[Mapping[str, str]] = []
    tasks: set[asyncio.Task[None]] = set()

    async def run(task_id: UUID) -> None:
        claimed = await target_tasks.claim(task_id, "w1")
        if claimed is not None:
            asked.append(claimed[0].arguments)
            await target_tasks.answer(task_id, "w1", answers[claimed[0].kind])

    def on_run(payload: Mapping[str, str]) -> None:
        task = asyncio.get_running_loop().create_task(run(UUID(payload["target_task_id"])))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    world.signals.subscribe(Topic.TARGET_TASK_RUN, on_run)
    return asked

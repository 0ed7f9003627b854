"""A worker that answers every errand as a test says, without any target."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import UUID

from tests.support.world import World

from postern.domain.targets.errand import ErrandAnswer, ErrandKind
from postern.services.targets.errands import Errands
from postern.store.ports.common_ports import Topic

SMALL: Mapping[ErrandKind, ErrandAnswer] = {
    ErrandKind.TEST: ErrandAnswer({"success": True}),
    ErrandKind.DATABASES: ErrandAnswer({"databases": ["shop"]}),
    ErrandKind.TABLES: ErrandAnswer({"schemas": [{"name": "public", "tables": ["orders"]}]}),
    ErrandKind.COLUMNS: ErrandAnswer({"columns": [{"name": "id", "type": "integer", "nullable": False}]}),
}


def answer_errands(
    world: World, errands: Errands, answers: Mapping[ErrandKind, ErrandAnswer]
) -> list[Mapping[str, str]]:
    """From now on; what was asked is in the list."""
    asked: list[Mapping[str, str]] = []
    tasks: set[asyncio.Task[None]] = set()

    async def run(errand_id: UUID) -> None:
        claimed = await errands.claim(errand_id, "w1")
        if claimed is not None:
            asked.append(claimed[0].arguments)
            await errands.answer(errand_id, "w1", answers[claimed[0].kind])

    def on_run(payload: Mapping[str, str]) -> None:
        task = asyncio.get_running_loop().create_task(run(UUID(payload["errand_id"])))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    world.signals.subscribe(Topic.ERRAND_RUN, on_run)
    return asked

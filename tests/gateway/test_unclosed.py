"""The retry queue for session ends that the store did not accept."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from postern.domain.sessions.session import EndReason
from postern.errors import Unavailable
from postern.gateway.close_retry_queue import CloseRetryQueue, PendingClose


@dataclass
class Told:
    away: bool = False
    heard: list[tuple[UUID, dict[str, Any]]] = field(default_factory=list)

    async def close(self, session_id: UUID, **ending: Any) -> None:
        if self.away:
            raise Unavailable("the store does not answer")
        self.heard.append((session_id, ending))


def ending() -> PendingClose:
    return PendingClose(
        uuid4(), datetime(2026, 5, 1, tzinfo=UTC), EndReason.CLIENT_CLOSED, None, {"operations": 1}, 100
    )


async def test_session_end_is_stored_once_with_its_original_time() -> None:
    told, first, second = Told(away=True), ending(), ending()
    unclosed = CloseRetryQueue(told)  # type: ignore[arg-type]
    await unclosed.close(first)
    await unclosed.close(second)
    await unclosed.once()
    assert told.heard == []
    told.away = False
    await unclosed.once()
    await unclosed.once()
    assert [session for session, _ in told.heard] == [first.session_id, second.session_id]
    assert told.heard[0][1]["at"] == first.at
    assert told.heard[0][1]["reason"] is EndReason.CLIENT_CLOSED


async def test_session_end_that_the_store_accepts_is_not_retried() -> None:
    told = Told()
    unclosed = CloseRetryQueue(told)  # type: ignore[arg-type]
    await unclosed.close(ending())
    await unclosed.once()
    assert len(told.heard) == 1

"""Previews of scripts for those who can run them: what they would be told, and who would have to approve first.

A preview is asked whenever an author pauses while typing. It is throttled for each principal, and neither a session nor
an entry of the audit log. A relay worker judges it (gateway/rules/script_judge.py): only workers have the schemas that
rules need.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import ApprovalRequirement
from postern.domain.rules.script_preview import MAX_PREVIEW
from postern.domain.sessions.script_parameters import Parameters
from postern.domain.sessions.session import Verb
from postern.domain.targets.target_task import TargetTaskKind
from postern.errors import Invalid, TooMany
from postern.services.admission import Access
from postern.services.identity.logins.passwords import Throttle
from postern.services.reviews.review_requests import ReviewRequests
from postern.services.script_binding import bind
from postern.services.targets.target_tasks import WAIT, TargetTasks
from postern.store.ports.common_ports import Clock

EACH_MINUTE = 120  # previews of one principal
AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class PreviewedScript:
    """`result` is the worker's answer as JSON (`ScriptPreview.as_json`); `requirements` are the approvals that the
    script needs before it runs."""

    result: Mapping[str, Any]
    requirements: tuple[ApprovalRequirement, ...]


class ScriptPreviews:
    def __init__(self, target_tasks: TargetTasks, access: Access, asking: ReviewRequests, now: Clock) -> None:
        self._target_tasks = target_tasks
        self._access = access
        self._asking = asking
        self._throttle = Throttle(now, failures=EACH_MINUTE, window=timedelta(minutes=1), what="previews")
        self._running: Counter[UUID] = Counter()

    async def preview(
        self,
        principal: Principal,
        connection: str,
        script: str,
        *,
        database: str | None,
        parameters: Parameters,
        source: str,
        wait: float = WAIT,
    ) -> PreviewedScript:
        """Preview a script. Raises as `TargetTasks.ask`, and Invalid as `bind`."""
        if len(script) > MAX_PREVIEW:
            raise Invalid(f"script: at most {MAX_PREVIEW:,} characters can be previewed", field="script")
        with self._place(principal):
            permit = await self._access.admit_preview(principal, connection, source=source)
            requirements = await self._asking.find_requirements(principal, permit.connection, Verb.EXEC)
            arguments = {"script": script, "database": database}
            if parameters:
                await asyncio.to_thread(bind, script, parameters, permit.connection)
                arguments["parameters"] = json.dumps(dict(parameters))
            answer = await self._target_tasks.ask(
                principal,
                str(permit.connection.id),
                TargetTaskKind.PREVIEW,
                arguments,
                source=source,
                wait=wait,
            )
        return PreviewedScript(answer.result, requirements)

    @contextmanager
    def _place(self, principal: Principal) -> Iterator[None]:
        key = str(principal.id)
        self._throttle.check(key)
        self._throttle.fail(key)
        if self._running[principal.id] >= AT_ONCE:
            raise TooMany(f"{AT_ONCE} previews of yours are running; try again in a second", retry_after=1)
        self._running[principal.id] += 1
        try:
            yield
        finally:
            self._running[principal.id] -= 1
            if not self._running[principal.id]:
                del self._running[principal.id]

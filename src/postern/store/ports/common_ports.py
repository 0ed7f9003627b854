"""The ports that every service needs: a clock and signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

Clock = Callable[[], datetime]


class Topic:
    """The signals' topics; payloads are in docs/architecture.md."""

    SESSION_RUN = "session.run"
    SESSION_KILL = "session.kill"
    SESSION_DONE = "session.done"
    CREDENTIAL_REVOKED = "credential.revoked"
    PRINCIPAL_CHANGED = "principal.changed"
    SETTINGS_CHANGED = "settings.changed"
    POLICY_CHANGED = "policy.changed"
    AGENT_CHANGED = "agent.changed"
    WORKERS_CHANGED = "workers.changed"
    TARGET_TASK_RUN = "target_task.run"
    TARGET_TASK_DONE = "target_task.done"
    CANCEL = "cancel"
    REVIEW_CHANGED = "review.changed"
    ISSUE_CHANGED = "issue.changed"
    SSH_LOGIN_SETTLED = "ssh_login.settled"
    DATA_KEYS_CHANGED = "data_keys.changed"
    # Told by the signals client itself, never sent: the hub was lost and found again, so messages
    # may have been missed. Drop what is cached and check what is live.
    RESUMED = "signals.resumed"


class Signals(Protocol):
    @property
    def connected(self) -> bool:
        """Whether other processes are reachable, if there are any."""

    async def publish(self, topic: str, **payload: str) -> None:
        """Send to every process, this one too. Never waits for a slow subscriber."""

    def subscribe(self, topic: str, handler: Callable[[Mapping[str, str]], None]) -> None:
        """Call `handler` on the event loop; it must return at once."""

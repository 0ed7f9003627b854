"""The ports that every service needs: a clock and signals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

Clock = Callable[[], datetime]


class Topic:
    """The signals' topics. Comments give the payload, and the processes that act on it."""

    # session_id, and traceparent if it is traced: the worker that claims the row runs the script.
    SESSION_RUN = "session.run"
    # session_id: a worker has opened it, or claimed it; the API tells the clients that follow changes.
    SESSION_STARTED = "session.started"
    # session_id, reason: the session's worker ends it.
    SESSION_KILL = "session.kill"
    # session_id: wakes the API requests that wait for it.
    SESSION_DONE = "session.done"
    # credential_id: workers end its links.
    CREDENTIAL_REVOKED = "credential.revoked"
    # principal_id: workers end the links of a principal that is no longer active.
    PRINCIPAL_CHANGED = "principal.changed"
    # principal_id, change (started, ended), and login_id unless it is about several: the API ends the event streams of
    # a login that has ended.
    LOGIN_CHANGED = "login.changed"
    # name (auth, features, runbooks, server, token-keys, tracker), org_id: every process drops its cached copy, and
    # workers move their listeners.
    SETTINGS_CHANGED = "settings.changed"
    # connection_id and its org_id, or org_id alone for all of an organisation, or empty for all: workers drop cached
    # policies, and check and renew running links.
    POLICY_CHANGED = "policy.changed"
    # agent_id, change (came, went, renewed, deleted, drained), org_id if known: workers end the tunnels of an
    # agent whose key is no longer valid; the API tells the agent.
    AGENT_CHANGED = "agent.changed"
    # No payload: the API tells every agent which relay workers are alive.
    WORKERS_CHANGED = "workers.changed"
    # target_task_id, and traceparent if it is traced: the worker that claims the row asks the target.
    TARGET_TASK_RUN = "target_task.run"
    # target_task_id: wakes the API request that waits for the answer.
    TARGET_TASK_DONE = "target_task.done"
    # key, address; or key, by, query where keys can be guessed: the worker whose link owns that cancel key,
    # if the link belongs to the principal `by`.
    CANCEL = "cancel"
    # review_id, status, session_id, principal_id: workers look at it for waiting logins, and check the links that it
    # admitted.
    REVIEW_CHANGED = "review.changed"
    # No payload: processes with listeners read the files of their certificate again, and the archiver renews it if that
    # is due.
    CERTIFICATES_CHANGED = "certificates.changed"
    # session_id: the archiver looks for work in trackers; requests that wait for the issue look again.
    ISSUE_CHANGED = "issue.changed"
    # ssh_login_id: the worker whose SSH client waits for a login in a browser.
    SSH_LOGIN_SETTLED = "ssh_login.settled"
    # principal, connection, query_id, text: a query whose results another worker can be asked for.
    QUERY_STARTED = "query.started"
    # No payload: every process reads the data keys again.
    DATA_KEYS_CHANGED = "data_keys.changed"
    # Never sent: each process gets it from its own client after the hub was lost and found again. Messages may have
    # been missed: drop caches, check live links.
    RESUMED = "signals.resumed"


class Signals(Protocol):
    @property
    def connected(self) -> bool:
        """Whether other processes are reachable, if there are any."""

    async def publish(self, topic: str, **payload: str) -> None:
        """Send to every process, this one too. Never waits for a slow subscriber."""

    def subscribe(self, topic: str, handler: Callable[[Mapping[str, str]], None]) -> None:
        """Call `handler` on the event loop; it must return at once."""

"""The adapter for each kind of tracker."""

from __future__ import annotations

import ssl

from postern.domain.issue import TrackerKind, TrackerSettings
from postern.errors import Invalid
from postern.integrations.identity.addresses import Network
from postern.integrations.identity.fetch import Resolve, resolve
from postern.integrations.trackers import jira
from postern.integrations.trackers.calls import DEADLINE, Calls
from postern.integrations.trackers.jira_cloud import JiraCloud
from postern.integrations.trackers.jira_data_center import JiraDataCenter

AnyTracker = JiraCloud | JiraDataCenter


def tracker_of(
    settings: TrackerSettings,
    allowed: tuple[Network, ...] = (),
    *,
    resolver: Resolve = resolve,
    deadline: float = DEADLINE,
) -> AnyTracker:
    """`allowed` are private networks in which trackers may be, loopback too; `deadline` is in seconds, of a request.
    Whoever asks for one closes it. Raises Invalid for an address, credentials or an authority that cannot be."""
    _check(settings)
    calls = Calls(
        settings.url,
        jira.headers_of(settings),
        jira.said_of,
        secret=settings.token,
        verdict=jira.verdict_of,
        authority=settings.authority,
        allowed=allowed,
        resolver=resolver,
        deadline=deadline,
    )
    return JiraCloud(calls) if settings.kind is TrackerKind.JIRA_CLOUD else JiraDataCenter(calls)


def _check(settings: TrackerSettings) -> None:
    token = settings.token.reveal()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Invalid("the token must be there, without blanks or odd characters", field="token")
    if settings.kind is TrackerKind.JIRA_CLOUD and not settings.user:
        raise Invalid("Jira Cloud wants the e-mail address that the API token is of", field="user")
    if not settings.user.isprintable() or ":" in settings.user:
        raise Invalid("the user must have no colon and no control characters", field="user")
    if settings.authority:
        try:
            ssl.create_default_context(cadata=settings.authority)
        except (ssl.SSLError, ValueError):
            raise Invalid("the authority must be the PEM of a certificate", field="authority") from None

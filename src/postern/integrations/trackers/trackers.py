"""The adapter for each kind of tracker."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from postern.domain.addresses import Network, check_saved
from postern.domain.issues.issue import TrackerKind, TrackerSettings
from postern.domain.secret import Secret
from postern.errors import Invalid, PosternError
from postern.integrations.identity.fetch import Resolve, resolve
from postern.integrations.trackers import github, gitlab, jira
from postern.integrations.trackers.github import GitHub
from postern.integrations.trackers.gitlab import GitLab
from postern.integrations.trackers.jira_cloud import JiraCloud
from postern.integrations.trackers.jira_data_center import JiraDataCenter
from postern.integrations.trackers.tracker_calls import DEADLINE, SETTING, TrackerClient, TrackerResponse, checked_base

AnyTracker = JiraCloud | JiraDataCenter | GitHub | GitLab


def tracker_of(
    settings: TrackerSettings,
    allowed: tuple[Network, ...] = (),
    *,
    resolver: Resolve = resolve,
    deadline: float = DEADLINE,
) -> AnyTracker:
    """Return the adapter, which the caller must close. `allowed` are private networks in which trackers may be,
    including loopback; `deadline` is in seconds per request. Raises Invalid for an invalid address, credentials or
    authority."""
    _check(settings)
    vendor = _VENDORS[settings.kind]
    site, api = settings.url, settings.url
    if settings.kind is TrackerKind.GITHUB:
        site, api = github.addresses_of(checked_base(settings.url))
    elif settings.kind is TrackerKind.GITLAB:
        site = checked_base(settings.url)
        api = f"{site}/api/v4"
    check_saved(urlsplit(checked_base(api)).hostname or "", allowed, SETTING, "url")
    calls = TrackerClient(
        api,
        vendor.headers_of(settings),
        vendor.error_texts,
        secret=settings.token,
        verdict=vendor.verdict_of,
        authority=settings.authority,
        allowed=allowed,
        resolver=resolver,
        deadline=deadline,
    )
    return vendor.make(calls, site)


@dataclass(frozen=True, slots=True)
class _Vendor:
    make: Callable[[TrackerClient, str], AnyTracker]
    headers_of: Callable[[TrackerSettings], dict[str, str | Secret]]
    error_texts: Callable[[Any], list[str]]
    verdict_of: Callable[[TrackerResponse, str], PosternError | None] = lambda _reply, _said: None


_VENDORS = {
    TrackerKind.JIRA_CLOUD: _Vendor(
        lambda calls, _: JiraCloud(calls), jira.headers_of, jira.error_texts, jira.verdict_of
    ),
    TrackerKind.JIRA_DATA_CENTER: _Vendor(
        lambda calls, _: JiraDataCenter(calls), jira.headers_of, jira.error_texts, jira.verdict_of
    ),
    TrackerKind.GITHUB: _Vendor(GitHub, github.headers_of, github.error_texts, github.verdict_of),
    TrackerKind.GITLAB: _Vendor(GitLab, gitlab.headers_of, gitlab.error_texts),
}


def _check(settings: TrackerSettings) -> None:
    token = settings.token.reveal()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise Invalid("the token must be set, with printable ASCII characters and without spaces", field="token")
    if settings.kind is TrackerKind.JIRA_CLOUD and not settings.user:
        raise Invalid("Jira Cloud requires the e-mail address of the API token's owner", field="user")
    if not settings.user.isprintable() or ":" in settings.user:
        raise Invalid("the user must have no colon and no control characters", field="user")
    if settings.authority:
        try:
            ssl.create_default_context(cadata=settings.authority)
        except (ssl.SSLError, ValueError):
            raise Invalid("the authority must be a certificate in PEM format", field="authority") from None

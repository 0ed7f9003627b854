"""Jira Cloud: REST version 3, an e-mail address with an API token, and Assets at a separate address."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from postern.domain.issues.issue import Asset, Assets
from postern.domain.lists import Page
from postern.errors import Invalid
from postern.integrations.trackers.aql import query_by_name, search
from postern.integrations.trackers.jira import SEARCHED, Jira
from postern.integrations.trackers.jira_fields import Dialect
from postern.integrations.trackers.tracker_calls import TrackerClient, checked_base, rows, segment, text
from postern.integrations.trackers.tracker_texts import document

ATLASSIAN = "https://api.atlassian.com"
_GATE = "/ex/jira/"  # in the addresses for tokens with scopes, which differ from the web addresses
_PAGES = 5
_MOST = 10  # objects of one name that are listed


class JiraCloud(Jira):
    api = "/rest/api/3"
    dialect = Dialect(escaped=str, whole=document, person="accountId")

    def __init__(self, calls: TrackerClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(calls, clock=clock)
        # A proxy before Atlassian also serves Assets.
        ours = (urlsplit(calls.url).hostname or "").endswith(".atlassian.net")
        self._atlassian = ATLASSIAN if ours else calls.url
        self._workspace = ""
        self._home = "" if _GATE in calls.url else calls.url

    async def _site(self) -> str:
        """Return the web address; see
        https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-server-info/"""
        if not self._home:
            content = (await self._calls.ask("GET", f"{self.api}/serverInfo")).content
            self._home = checked_base(text(content, "baseUrl"))
        return self._home

    async def _fields(self, path: str, start: int) -> tuple[Sequence[Mapping[str, Any]], bool]:
        page = (await self._calls.ask("GET", path, query={"startAt": start, "maxResults": SEARCHED})).content
        entries = rows(page, "fields")
        total = page.get("total") if isinstance(page, dict) else None
        return entries, not isinstance(total, int) or start + len(entries) >= total

    async def _search(self, jql: str) -> list[Mapping[str, Any]]:
        """Search issues; see https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issue-search/
        ("search/jql")"""
        issues: list[Mapping[str, Any]] = []
        body: dict[str, Any] = {"jql": jql, "maxResults": SEARCHED, "fields": ["summary", "description", "labels"]}
        for _ in range(_PAGES):
            page = (await self._calls.ask("POST", f"{self.api}/search/jql", body=body)).content
            issues.extend(rows(page, "issues"))
            token = text(page, "nextPageToken")
            if not token:
                break
            body["nextPageToken"] = token
        return issues

    async def objects(self, object_type: str, query: str, page: Page) -> Assets:
        return await self._assets(search(object_type, query), page.offset, page.limit)

    async def _assets_by_name(self, object_type: str, name: str) -> Sequence[Asset]:
        return (await self._assets(query_by_name(object_type, name), 0, _MOST)).items

    def _reference(self, asset: Asset) -> Any:
        """See https://support.atlassian.com/jira/kb/format-the-payload-to-update-assets-custom-fields-via-rest-api"""
        workspace, _, object_id = asset.id.partition(":")
        return {"id": asset.id, "workspaceId": workspace, "objectId": object_id}

    async def _assets(self, aql: str, offset: int, limit: int) -> Assets:
        """Search objects; see https://developer.atlassian.com/cloud/assets/rest/api-group-object/ ("object/aql")"""
        workspace = await self._find_workspace()
        path = f"/jsm/assets/workspace/{segment(workspace, 'workspace')}/v1/object/aql"
        query: dict[str, str | int] = {"startAt": offset, "maxResults": limit, "includeAttributes": "false"}
        answer = await self._calls.ask("POST", path, query=query, body={"qlQuery": aql}, url=self._atlassian)
        content = answer.content if isinstance(answer.content, dict) else {}
        items = [Asset(f"{workspace}:{text(row, 'id')}", text(row, "label")) for row in rows(content, "values")]
        total = content.get("total")
        return Assets(items, total if isinstance(total, int) else None, content.get("isLast") is False)

    async def _find_workspace(self) -> str:
        """Find the workspace; see https://developer.atlassian.com/cloud/jira/service-desk/rest/api-group-assets/"""
        if not self._workspace:
            workspaces = rows((await self._calls.ask("GET", "/rest/servicedeskapi/assets/workspace")).content, "values")
            self._workspace = text(workspaces[0], "workspaceId") if workspaces else ""
        if not self._workspace:
            raise Invalid("this Jira has no Assets; Assets requires Jira Service Management Premium")
        return self._workspace

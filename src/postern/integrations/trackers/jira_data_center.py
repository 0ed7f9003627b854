"""Jira Data Center: REST version 2, wiki markup, and Assets (formerly Insight) on the same server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from postern.domain.issues.issue import Asset, Assets
from postern.domain.lists import Page
from postern.errors import Invalid, NotFound
from postern.integrations.trackers.aql import query_by_name, search
from postern.integrations.trackers.jira import SEARCHED, Jira
from postern.integrations.trackers.jira_fields import WIKI
from postern.integrations.trackers.tracker_calls import rows, text

_PAGES = 5
_MOST = 10  # objects of one name that are listed
# (path, query parameter): as Assets, and under its former name.
_ASSETS = (("/rest/assets/1.0/aql/objects", "qlQuery"), ("/rest/insight/1.0/iql/objects", "iql"))


class JiraDataCenter(Jira):
    api = "/rest/api/2"
    dialect = WIKI

    async def _fields(self, path: str, start: int) -> tuple[Sequence[Mapping[str, Any]], bool]:
        """See https://docs.atlassian.com/software/jira/docs/api/REST/9.17.0/#api/2/issue-getCreateIssueMetaFields"""
        page = (await self._calls.ask("GET", path, query={"startAt": start, "maxResults": SEARCHED})).content
        return rows(page, "values"), not isinstance(page, dict) or page.get("isLast") is not False

    async def _search(self, jql: str) -> list[Mapping[str, Any]]:
        """See https://docs.atlassian.com/software/jira/docs/api/REST/9.17.0/#api/2/search-searchUsingSearchRequest"""
        issues: list[Mapping[str, Any]] = []
        for _ in range(_PAGES):
            body = {
                "jql": jql,
                "startAt": len(issues),
                "maxResults": SEARCHED,
                "fields": ["summary", "description", "labels"],
            }
            page = (await self._calls.ask("POST", f"{self.api}/search", body=body)).content
            here = rows(page, "issues")
            issues.extend(here)
            total = page.get("total") if isinstance(page, dict) else None
            if not here or not isinstance(total, int) or len(issues) >= total:
                break
        return issues

    async def objects(self, object_type: str, query: str, page: Page) -> Assets:
        if page.offset % page.limit:
            raise Invalid("offset: must be a multiple of the limit, because this Jira counts pages", field="offset")
        return await self._assets(search(object_type, query), page.offset // page.limit + 1, page.limit)

    async def _assets_by_name(self, object_type: str, name: str) -> Sequence[Asset]:
        return (await self._assets(query_by_name(object_type, name), 1, _MOST)).items

    def _reference(self, asset: Asset) -> Any:
        """See https://confluence.atlassian.com/assetapps/assets-with-jira-rest-api-1168847899.html"""
        return {"key": asset.id}

    async def _assets(self, aql: str, number: int, size: int) -> Assets:
        """Search objects; see https://docs.atlassian.com/assets/REST/10.8.0 ("aql/objects")"""
        content: Any = None
        for path, name in _ASSETS:
            query: dict[str, str | int] = {name: aql, "page": number, "resultPerPage": size}
            try:
                content = (await self._calls.ask("GET", path, query=query | {"includeAttributes": "false"})).content
                break
            except NotFound:
                continue
        if not isinstance(content, dict):
            raise Invalid("this Jira has no Assets; Assets requires Jira Service Management")
        items = [Asset(text(row, "objectKey"), text(row, "label")) for row in rows(content, "objectEntries")]
        total = content.get("totalFilterCount")
        counted = total if isinstance(total, int) else None
        return Assets(items, counted, counted is not None and number * size < counted)

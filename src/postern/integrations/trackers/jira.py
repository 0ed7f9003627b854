"""The common part of Jira Cloud and Jira Data Center.

An issue is created in one of two ways, by the kind of its project (`projectTypeKey`): in a service desk as a request of
a request type, anywhere else as an issue of an issue type. A template's `request_type_id` is the id of the one or the
other.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from postern.domain.issues.issue import Asset, Assets, Issue, NewIssue, TrackerKind, TrackerSettings, Uncertain
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, NotFound, PosternError
from postern.integrations.trackers.jira_fields import WIKI, Dialect, IssueForm, field_of, values_of
from postern.integrations.trackers.tracker_calls import (
    TrackerClient,
    TrackerResponse,
    clean_line,
    make_issue,
    mapping,
    require_its,
    rows,
    segment,
    text,
)
from postern.integrations.trackers.tracker_texts import document_text, has_marker

FORM_AGE = 300.0  # seconds for which a form is cached
SEARCHED = 50  # issues per page
_FORMS = 200
_PAGES = 20  # of any list
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]*-[0-9]+")
_DESK = "/rest/servicedeskapi"
# Header values by which it reports that it treats our credentials as anonymous.
_REFUSED = ("AUTHENTICATED_FAILED", "AUTHENTICATION_DENIED")


class Jira(ABC):
    """The tracker. `lag`: issues are searched in an index that is updated later, without a promised time."""

    lag = 30.0
    api: str

    def __init__(self, calls: TrackerClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._calls = calls
        self._clock = clock
        self._forms: OrderedDict[tuple[str, str], tuple[float, IssueForm]] = OrderedDict()

    dialect: Dialect
    """Of issues; requests of a service desk are in wiki markup everywhere."""

    @abstractmethod
    async def _fields(self, path: str, start: int) -> tuple[Sequence[Mapping[str, Any]], bool]:
        """Return one page of an issue type's fields, and whether it is the last."""

    @abstractmethod
    async def _search(self, jql: str) -> list[Mapping[str, Any]]:
        """Return all matching issues, within limits."""

    @abstractmethod
    async def objects(self, object_type: str, query: str, page: Page) -> Assets:
        """See `objects` in services.issues.tracker."""

    @abstractmethod
    async def _assets_by_name(self, object_type: str, name: str) -> Sequence[Asset]:
        """Return the objects of exactly that name."""

    @abstractmethod
    def _reference(self, asset: Asset) -> Any:
        """Return the value for a field of objects."""

    async def check(self, project_key: str = "") -> str:
        """Check the credentials; see https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-myself/"""
        me = (await self._calls.ask("GET", f"{self.api}/myself")).content
        words = f"Jira accepts the credentials of {clean_line(text(me, 'displayName'), 200) or 'a user without a name'}"
        if not project_key:
            return words
        project = await self._project(project_key)
        return f"{words}, which can read the project {clean_line(text(project, 'name'), 200)} ({project_key})"

    async def create(self, new: NewIssue) -> Issue:
        form = await self._form(new.project_key, new.request_type_id)
        dialect = self.dialect
        values = values_of(form, new, replace(WIKI, person=dialect.person) if form.desk else dialect)
        for name, (object_type, object_name) in new.objects.items():
            field = form.field(name)
            values[field.id if field else name] = [await self._object(name, object_type, object_name)]
        site = await self._site()
        try:
            key = await (self._request(form.desk, new, values) if form.desk else self._issue(new, values))
        except (Invalid, NotFound):
            # The form may have changed since.
            self._forms.pop((new.project_key, new.request_type_id), None)
            raise
        return _issue_of_key(site, key)

    async def _issue(self, new: NewIssue, values: Mapping[str, Any]) -> str:
        """Create an issue; see
        https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issues/#api-rest-api-3-issue-post"""
        fixed = {"project": {"key": new.project_key}, "issuetype": {"id": new.request_type_id}}
        answer = await self._calls.ask("POST", f"{self.api}/issue", body={"fields": {**values, **fixed}}, makes=True)
        return answer.text("key")

    async def _request(self, desk: str, new: NewIssue, values: Mapping[str, Any]) -> str:
        """Create a request, without ADF; see
        https://developer.atlassian.com/cloud/jira/service-desk/rest/api-group-request/"""
        body = {"serviceDeskId": desk, "requestTypeId": new.request_type_id, "requestFieldValues": dict(values)}
        answer = await self._calls.ask("POST", f"{_DESK}/request", body=body, makes=True)
        return answer.text("issueKey")

    async def _site(self) -> str:
        """Return the web address of issues."""
        return self._calls.url

    async def find(self, new: NewIssue) -> Issue | None:
        marker = _quote_jql(new.marker)
        # A phrase, in its own quotes.
        phrase = _quote_jql(f'"{new.marker}"')
        where = f"project = {_quote_jql(new.project_key)} AND (labels = {marker} OR text ~ {phrase})"
        for row in await self._search(f"{where} ORDER BY created ASC"):
            fields = mapping(row, "fields")
            labels = fields.get("labels")
            words = f"{text(fields, 'summary')} {document_text(fields.get('description'))}"
            # Equal for the index does not mean identical.
            if (isinstance(labels, list) and new.marker in labels) or has_marker(words, new.marker):
                return _issue_of_key(await self._site(), text(row, "key"))
        return None

    async def transition(self, issue: Issue, name: str) -> bool:
        """Transition an issue; see https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issues/ ("Get
        transitions")"""
        require_its(issue, issue.url == _address(await self._site(), issue.key))
        path = f"{self.api}/issue/{segment(issue.key, 'issue')}"
        lower_name = name.strip().lower()
        status = mapping((await self._calls.ask("GET", path, query={"fields": "status"})).content, "fields").get(
            "status"
        )
        if text(status, "name").lower() == lower_name:
            return False
        transitions = rows((await self._calls.ask("GET", f"{path}/transitions")).content, "transitions")
        fitting = [
            transition for transition in transitions if text(mapping(transition, "to"), "name").lower() == lower_name
        ] or [transition for transition in transitions if text(transition, "name").lower() == lower_name]
        if fitting:
            body = {"transition": {"id": text(fitting[0], "id")}}
            await self._calls.ask("POST", f"{path}/transitions", body=body)
            return True
        if text(mapping(status, "statusCategory"), "key") == "done":
            return False
        names = [
            f"{text(transition, 'name')} (to {text(mapping(transition, 'to'), 'name')})" for transition in transitions
        ]
        there_are = f"use one of: {', '.join(names)}" if names else "none is available to these credentials"
        raise Invalid(
            clean_line(f"{issue.key} has no transition named {name!r} or to a status of that name; {there_are}")
        )

    async def close(self) -> None:
        await self._calls.close()

    async def _object(self, name: str, object_type: str, object_name: str) -> Any:
        like = await self._assets_by_name(object_type, object_name)
        # Assets ignores case.
        assets = [asset for asset in like if asset.name == object_name] or like
        if len(assets) != 1:
            what = "no object" if not assets else f"several objects ({', '.join(asset.id for asset in assets)})"
            words = f"{name}: found {what} of type {object_type!r} with the name {object_name!r}"
            raise Invalid(clean_line(words), field=name)
        return self._reference(assets[0])

    async def _form(self, project_key: str, type_id: str) -> IssueForm:
        key, now = (project_key, type_id), self._clock()
        cached = self._forms.get(key)
        if cached is not None and now - cached[0] < FORM_AGE:
            return cached[1]
        project = await self._project(project_key)
        if text(project, "projectTypeKey") == "service_desk":
            form = await self._request_form(project_key, type_id)
        else:
            form = await self._issue_form(project_key, type_id)
        if not form.fields:
            raise Invalid(f"project {project_key} has no type {type_id} of which these credentials can create issues")
        self._forms[key] = (now, form)
        while len(self._forms) > _FORMS:
            self._forms.popitem(last=False)
        return form

    async def _project(self, key: str) -> Any:
        return (await self._calls.ask("GET", f"{self.api}/project/{segment(key, 'project_key')}")).content

    async def _issue_form(self, project_key: str, type_id: str) -> IssueForm:
        project, kind = segment(project_key, "project_key"), segment(type_id, "request_type_id")
        path = f"{self.api}/issue/createmeta/{project}/issuetypes/{kind}"
        entries: list[Mapping[str, Any]] = []
        for _ in range(_PAGES):
            page, last = await self._fields(path, len(entries))
            entries.extend(page)
            if last or not page:
                break
        fields = [field_of(entry, "schema") for entry in entries]
        return IssueForm("", {field.id: field for field in fields})

    async def _request_form(self, project_key: str, type_id: str) -> IssueForm:
        """Return the form of a request type; see
        https://developer.atlassian.com/cloud/jira/service-desk/rest/api-group-servicedesk/ ("fields")"""
        desk = await self._service_desk_id(project_key)
        kind = segment(type_id, "request_type_id")
        path = f"{_DESK}/servicedesk/{segment(desk, 'desk')}/requesttype/{kind}/field"
        entries = rows((await self._calls.ask("GET", path)).content, "requestTypeFields")
        # The service desk fills in hidden fields itself, and shows them only to its administrators.
        fields = [field_of(entry, "jiraSchema") for entry in entries if entry.get("visible") is not False]
        return IssueForm(desk, {field.id: field for field in fields})

    async def _service_desk_id(self, project_key: str) -> str:
        """Return the project's service desk. Raises NotFound."""
        start = 0
        for _ in range(_PAGES):
            query = {"start": start, "limit": 50}
            page = (await self._calls.ask("GET", f"{_DESK}/servicedesk", query=query)).content
            desks = rows(page, "values")
            for desk in desks:
                if text(desk, "projectKey") == project_key:
                    return text(desk, "id")
            start += len(desks)
            if not desks or page.get("isLastPage") is not False:
                break
        raise NotFound(f"project {project_key} has no service desk that these credentials can see")


def _issue_of_key(site: str, key: str) -> Issue:
    if not _KEY.fullmatch(key):
        raise Uncertain("Jira answered without the key of the created issue")
    return make_issue(key, _address(site, key))


def _address(site: str, key: str) -> str:
    return f"{site}/browse/{key}"


def headers_of(settings: TrackerSettings) -> dict[str, str | Secret]:
    """Return the headers: a user name with its token, or a token alone (a personal access token of Data Center).

    https://developer.atlassian.com/cloud/jira/platform/basic-auth-for-rest-apis/ and
    https://confluence.atlassian.com/enterprise/using-personal-access-tokens-1026032365.html
    """
    token = settings.token.reveal()
    pair = b64encode(f"{settings.user}:{token}".encode()).decode()
    authorization = f"Basic {pair}" if settings.user else f"Bearer {token}"
    # Required for experimental parts of the service desk's API. The documents differ in the value.
    opted = "opt-in" if settings.kind is TrackerKind.JIRA_CLOUD else "true"
    return {"Authorization": Secret(authorization), "X-ExperimentalApi": opted}


def error_texts(content: Any) -> list[str]:
    """Return the error texts, in each of the formats of Jira's parts."""
    messages = content.get("errorMessages") if isinstance(content, dict) else None
    texts = [message for message in messages if isinstance(message, str)] if isinstance(messages, list) else []
    texts.extend(f"{name}: {why}" for name, why in mapping(content, "errors").items() if isinstance(why, str))
    texts.extend(text(content, name) for name in ("errorMessage", "message"))
    return texts


def verdict_of(reply: TrackerResponse, reason: str) -> PosternError | None:
    """Return the error of a response. An anonymous caller sees no objects, and gets "not found"."""
    if reply.headers.get("X-Seraph-LoginReason", "") in _REFUSED:
        return Denied(f"Jira rejected the credentials{': ' + reason if reason else ''}")
    return None


def _quote_jql(words: str) -> str:
    """Quote a text for JQL (https://support.atlassian.com/jira-software-cloud/docs/jql-fields/)."""
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'

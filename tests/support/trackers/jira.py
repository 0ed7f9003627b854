"""Jira, Cloud or Data Center, with one project of software and one service desk.

It refuses what the documents do not name: https://developer.atlassian.com/cloud/jira/platform/rest/v3/,
https://developer.atlassian.com/cloud/jira/service-desk/rest/, https://docs.atlassian.com/software/jira/docs/api/REST/
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.trackers.jira_values import Refusal, Spec, checked
from tests.support.trackers.serving import Answer, Handler, Refused, Request, Site

USER, TOKEN = "robot@example.com", "ATATT3xFfGF0-not-a-real-token"
SOFTWARE, TASK = "DEV", "10002"
DESK, DESK_ID, REQUEST_TYPE = "OPS", "3", "25"
BARE_TYPE = "26"  # whose form has a summary alone
PEOPLE = "https://acme.atlassian.net"  # what it calls itself
WORKSPACE = "g2778e1d-939d-581d-c8e2-9d5g59de456b"
WORKFLOW: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "To Do": (("11", "Start work", "In Progress"), ("31", "Close it", "Done"), ("51", "Drop", "Won't do")),
    "In Progress": (("21", "Stop work", "To Do"), ("31", "Close it", "Done"), ("51", "Drop", "Won't do")),
    "Done": (("41", "Reopen", "To Do"),),
    "Won't do": (("41", "Reopen", "To Do"),),
}
_CATEGORIES = {"To Do": "new", "In Progress": "indeterminate", "Done": "done", "Won't do": "done"}
_STRING = r'"((?:[^"\\]|\\.)*)"'
_JQL = re.compile(rf"project = {_STRING} AND \(labels = {_STRING} OR text ~ {_STRING}\) ORDER BY created ASC")
_AQL = re.compile(rf"objectType = {_STRING}(?: AND Name (=|LIKE) {_STRING})?")


@dataclass
class Made:
    """`indexed`: a search finds it. `request_type` is None for one that no service desk made."""

    key: str
    fields: dict[str, Any]
    request_type: str | None = None
    status: str = "To Do"
    indexed: bool = True


@dataclass
class Thing:
    """An object of Assets."""

    id: str
    type: str
    name: str

    @property
    def key(self) -> str:
        return f"CMDB-{self.id}"


@dataclass
class JiraServer(Site):
    """`indexing`: what is made is found at once; else once a test sets `indexed` of it. `page` is the most that any
    page holds."""

    cloud: bool = True
    issues: dict[str, Made] = field(default_factory=dict)
    things: list[Thing] = field(default_factory=list)
    indexing: bool = True
    page: int = 50
    old_assets: bool = False
    has_assets: bool = True
    forms: dict[tuple[str, str], list[Spec]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        base = [
            Spec("summary", "Summary", {"type": "string", "system": "summary"}, required=True),
            Spec("description", "Description", {"type": "string", "system": "description"}),
            Spec("labels", "Labels", {"type": "array", "items": "string", "system": "labels"}),
        ]
        custom = "com.atlassian.jira.plugin.system.customfieldtypes:"
        own = [
            Spec("customfield_10001", "Who", {"type": "string", "custom": f"{custom}textfield"}),
            Spec("customfield_10002", "Why", {"type": "string", "custom": f"{custom}textarea"}),
            Spec("customfield_10003", "Risk", {"type": "option", "custom": f"{custom}select"}, options=("low", "high")),
            Spec("customfield_10004", "Until", {"type": "datetime", "custom": f"{custom}datetime"}),
            Spec("customfield_10005", "Parts", {"type": "array", "items": "option"}, options=("db", "web")),
            Spec("customfield_10006", "Machine", {"type": "any", "custom": "com.atlassian.jira:cmdb-object-cftype"}),
            Spec("customfield_10007", "Cost", {"type": "number", "custom": f"{custom}float"}),
            Spec("customfield_10008", "Day", {"type": "date", "custom": f"{custom}datepicker"}),
            Spec("customfield_10009", "Owner", {"type": "user", "custom": f"{custom}userpicker"}),
            Spec("priority", "Priority", {"type": "priority", "system": "priority"}, options=("High", "Low")),
        ]
        # Labels are filled in by the service desk itself.
        desk = [*base[:2], replace(base[2], visible=False), *own]
        self.forms = {(SOFTWARE, TASK): base + own, (DESK, REQUEST_TYPE): desk, (DESK, BARE_TYPE): base[:1]}
        self.things = [
            Thing("88", "Server", "web-1"),
            Thing("89", "Server", "web-2"),
            Thing("90", "Server", 'a "b" \\ c'),
        ]
        self.things += [Thing("91", "Room", "web-1"), Thing("92", "Server", "twin"), Thing("93", "Server", "twin")]

    @property
    def api(self) -> str:
        return "/rest/api/3" if self.cloud else "/rest/api/2"

    def routes(self) -> list[tuple[str, Handler]]:
        desk = "/rest/servicedeskapi"
        found: list[tuple[str, Handler]] = [
            (f"GET {self.api}/myself", self._myself),
            (f"GET {self.api}/project/([^/]+)", self._project),
            (f"GET {self.api}/issue/createmeta/([^/]+)/issuetypes/([^/]+)", self._fields),
            (f"POST {self.api}/issue", self._create),
            (f"GET {self.api}/issue/([^/]+)", self._issue),
            (f"GET {self.api}/issue/([^/]+)/transitions", self._transitions),
            (f"POST {self.api}/issue/([^/]+)/transitions", self._transition),
            (f"GET {desk}/servicedesk", self._desks),
            (f"GET {desk}/servicedesk/([^/]+)/requesttype/([^/]+)/field", self._request_fields),
            (f"POST {desk}/request", self._request),
        ]
        if self.cloud:
            found += [
                ("GET /rest/api/3/serverInfo", lambda _: Answer(200, {"baseUrl": PEOPLE, "deploymentType": "Cloud"})),
                ("POST /rest/api/3/search/jql", self._search_cloud),
                ("(?:GET|POST) /rest/api/3/search", self._gone),
                (f"GET {desk}/assets/workspace", self._workspace),
                ("POST /jsm/assets/workspace/([^/]+)/v1/object/aql", self._aql_cloud),
            ]
        else:
            assets = "GET /rest/insight/1.0/iql/objects" if self.old_assets else "GET /rest/assets/1.0/aql/objects"
            found.append(("POST /rest/api/2/search", self._search_server))
            if self.has_assets:
                found.append((assets, self._aql_server))
        return found

    def admit(self, request: Request) -> None:
        if request.headers.get("x-experimentalapi") != ("opt-in" if self.cloud else "true"):
            raise Refused(412, {"errorMessage": "This API is experimental."})
        given = request.headers.get("authorization", "")
        pair = base64.b64encode(f"{USER}:{TOKEN}".encode()).decode()
        if given == f"Basic {pair}" or (not self.cloud and given == f"Bearer {TOKEN}"):
            return
        if request.path.endswith("/myself"):
            raise Refused(401, {"errorMessages": ["Client must be authenticated to access this resource."]})
        raise Refused(404, {"errorMessages": ["Nothing here."]}, X_Seraph_LoginReason="AUTHENTICATED_FAILED")

    def unknown(self, request: Request) -> Answer:
        return Answer(404, {"errorMessages": ["dead link"], "errors": {}})

    def _gone(self, request: Request) -> Answer:
        words = "The requested API has been removed. Please migrate to the /rest/api/3/search/jql API."
        return Answer(410, {"errorMessages": [words], "errors": {}})

    def _myself(self, request: Request) -> Answer:
        return Answer(200, {"displayName": "Robot", "emailAddress": USER, "active": True})

    def _project(self, request: Request, key: str) -> Answer:
        kinds = {SOFTWARE: "software", DESK: "service_desk"}
        if key not in kinds:
            return Answer(404, {"errorMessages": [f"No project could be found with key '{key}'."], "errors": {}})
        return Answer(200, {"id": "10000", "key": key, "name": f"All of {key}", "projectTypeKey": kinds[key]})

    def _fields(self, request: Request, project: str, type_id: str) -> Answer:
        if project != SOFTWARE or (project, type_id) not in self.forms:
            return Answer(200, {"startAt": 0, "maxResults": 50, "total": 0, "fields": []})
        start, size = int(request.query["startAt"]), min(int(request.query["maxResults"]), self.page)
        known = self.forms[project, type_id]
        here = [one.shown("schema") for one in known[start : start + size]]
        paged = {"startAt": start, "maxResults": size, "total": len(known)}
        if self.cloud:
            return Answer(200, {**paged, "fields": here})
        return Answer(200, {**paged, "isLast": start + len(here) >= len(known), "values": here})

    def _create(self, request: Request) -> Answer:
        body = _object(request.body, {"fields", "update", "properties", "historyMetadata", "transition"})
        fields = dict(body.get("fields") or {})
        project = str(_object(fields.pop("project", {}), {"key", "id"}).get("key"))
        kind = str(_object(fields.pop("issuetype", {}), {"id", "name"}).get("id"))
        if project not in (SOFTWARE, DESK):
            raise Refused(400, {"errorMessages": [], "errors": {"project": "valid project is required"}})
        if (project, kind) not in self.forms or project == DESK:
            raise Refused(400, {"errorMessages": [], "errors": {"issuetype": "The issue type selected is invalid."}})
        try:
            checked(self.forms[project, kind], fields, adf=self.cloud, cloud=self.cloud)
        except Refusal as refusal:
            raise Refused(400, {"errorMessages": [], "errors": refusal.errors}) from None
        made = self._made(project, fields)
        number = made.key.rpartition("-")[2]
        return Answer(201, {"id": number, "key": made.key, "self": f"{self.url}{self.api}/issue/{number}"})

    def _desks(self, request: Request) -> Answer:
        """The one that matters comes last."""
        desks = {f"HR{number}": f"9{number}" for number in range(60)} | {DESK: DESK_ID}
        start, size = int(request.query.get("start", 0)), min(int(request.query.get("limit", 50)), self.page)
        here = [{"id": desk, "projectKey": key} for key, desk in list(desks.items())[start : start + size]]
        last = start + len(here) >= len(desks)
        return Answer(200, {"size": len(here), "start": start, "limit": size, "isLastPage": last, "values": here})

    def _request_fields(self, request: Request, desk: str, kind: str) -> Answer:
        if desk != DESK_ID or (DESK, kind) not in self.forms:
            return Answer(404, {"errorMessage": "The request type does not exist.", "i18nErrorMessage": {}})
        shown = [one.shown("jiraSchema") for one in self.forms[DESK, kind]]
        return Answer(200, {"requestTypeFields": shown, "canRaiseOnBehalfOf": True, "canAddRequestParticipants": True})

    def _request(self, request: Request) -> Answer:
        known = {"serviceDeskId", "requestTypeId", "requestFieldValues", "isAdfRequest", "channel", "form"}
        body = _object(request.body, known | {"requestParticipants", "raiseOnBehalfOf"})
        kind, fields = str(body.get("requestTypeId")), dict(body.get("requestFieldValues") or {})
        if body.get("serviceDeskId") != DESK_ID or (DESK, kind) not in self.forms:
            raise Refused(400, {"errorMessage": "The service desk or request type does not exist."})
        try:
            checked(self.forms[DESK, kind], fields, adf=bool(body.get("isAdfRequest")), cloud=self.cloud)
        except Refusal as refusal:
            words = "; ".join(f"{name}: {why}" for name, why in refusal.errors.items())
            raise Refused(
                400, {"errorMessage": words, "i18nErrorMessage": {"i18nKey": "sd.x", "parameters": []}}
            ) from None
        made = self._made(DESK, fields, request_type=kind)
        links = {"web": f"{self.url}/servicedesk/customer/portal/{DESK_ID}/{made.key}"}
        return Answer(201, {"issueId": "1", "issueKey": made.key, "serviceDeskId": DESK_ID, "_links": links})

    def _made(self, project: str, fields: dict[str, Any], request_type: str | None = None) -> Made:
        made = Made(f"{project}-{len(self.issues) + 1}", fields, request_type, indexed=self.indexing)
        self.issues[made.key] = made
        return made

    def _known(self, key: str) -> Made:
        if key not in self.issues:
            words = "Issue does not exist or you do not have permission to see it."
            raise Refused(404, {"errorMessages": [words], "errors": {}})
        return self.issues[key]

    def _issue(self, request: Request, key: str) -> Answer:
        status = self._known(key).status
        fields = {"status": {"name": status, "statusCategory": {"key": _CATEGORIES[status]}}}
        return Answer(200, {"key": key, "fields": fields})

    def _transitions(self, request: Request, key: str) -> Answer:
        ways = WORKFLOW[self._known(key).status]
        shown = [{"id": way, "name": name, "to": {"name": to}, "isAvailable": True} for way, name, to in ways]
        return Answer(200, {"expand": "transitions", "transitions": shown})

    def _transition(self, request: Request, key: str) -> Answer:
        body = _object(request.body, {"transition", "fields", "update", "historyMetadata", "properties"})
        made, wanted = self._known(key), str(_object(body.get("transition"), {"id"}).get("id"))
        to = {way: to for way, _, to in WORKFLOW[made.status]}.get(wanted)
        if to is None:
            words = f"It seems that you have tried to perform a workflow operation ({wanted}) that is not valid."
            raise Refused(400, {"errorMessages": [words], "errors": {}})
        made.status = to
        return Answer(204)

    def _search_cloud(self, request: Request) -> Answer:
        body = _object(request.body, {"jql", "maxResults", "fields", "nextPageToken", "expand", "reconcileIssues"})
        start = int(body.get("nextPageToken", "token-0").removeprefix("token-"))
        found, size = self._found(body["jql"]), min(body.get("maxResults", 50), self.page)
        here = [self._shown(one, body.get("fields", ["id"])) for one in found[start : start + size]]
        if start + size >= len(found):
            return Answer(200, {"isLast": True, "issues": here})
        return Answer(200, {"isLast": False, "issues": here, "nextPageToken": f"token-{start + size}"})

    def _search_server(self, request: Request) -> Answer:
        body = _object(request.body, {"jql", "maxResults", "fields", "startAt", "validateQuery", "expand"})
        start, size = body.get("startAt", 0), min(body.get("maxResults", 50), self.page)
        found = self._found(body["jql"])
        here = [self._shown(one, body.get("fields", [])) for one in found[start : start + size]]
        return Answer(200, {"startAt": start, "maxResults": size, "total": len(found), "issues": here})

    def _found(self, jql: str) -> list[Made]:
        """What the index has; words are alike where their letters and digits are, whatever is between."""
        parsed = _JQL.fullmatch(jql)
        if parsed is None:
            raise Refused(400, {"errorMessages": ["Error in the JQL Query"], "errors": {}})
        project, label, phrase = (_unquoted(part) for part in parsed.groups())
        wanted = _words(phrase.strip('"'))
        found = []
        for one in self.issues.values():
            text = _words(f"{one.fields.get('summary')} {one.fields.get('description')}")
            fits = label in one.fields.get("labels", []) or wanted in text
            if one.indexed and one.key.startswith(f"{project}-") and fits:
                found.append(one)
        return found

    def _shown(self, made: Made, names: list[str]) -> dict[str, Any]:
        return {"key": made.key, "fields": {name: made.fields[name] for name in names if name in made.fields}}

    def _workspace(self, request: Request) -> Answer:
        found = [{"workspaceId": WORKSPACE}] if self.has_assets else []
        return Answer(200, {"size": len(found), "start": 0, "limit": 50, "isLastPage": True, "values": found})

    def _aql_cloud(self, request: Request, workspace: str) -> Answer:
        if workspace != WORKSPACE:
            return Answer(404, {"errorMessages": ["no such workspace"]})
        found = self._things(_object(request.body, {"qlQuery"})["qlQuery"])
        start, size = int(request.query["startAt"]), min(int(request.query["maxResults"]), self.page)
        here = [{"id": one.id, "label": one.name, "objectKey": one.key} for one in found[start : start + size]]
        last = start + size >= len(found)
        return Answer(200, {"startAt": start, "total": len(found), "values": here, "isLast": last})

    def _aql_server(self, request: Request) -> Answer:
        found = self._things(request.query["iql" if self.old_assets else "qlQuery"])
        number, size = int(request.query["page"]), int(request.query["resultPerPage"])
        start = (number - 1) * size
        here = [{"id": int(one.id), "label": one.name, "objectKey": one.key} for one in found[start : start + size]]
        return Answer(200, {"objectEntries": here, "totalFilterCount": len(found), "pageNumber": number})

    def _things(self, aql: str) -> list[Thing]:
        parsed = _AQL.fullmatch(aql)
        if parsed is None:
            raise Refused(400, {"errorMessages": ["The AQL query is not valid."], "errors": {}})
        kind, operator, name = parsed[1], parsed[2], _unquoted(parsed[3] or "").lower()
        of_type = [one for one in self.things if one.type == _unquoted(kind)]
        if operator == "=":
            return [one for one in of_type if one.name.lower() == name]
        return sorted((one for one in of_type if name in one.name.lower()), key=lambda one: one.name)


def _object(given: Any, known: set[str]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise Refused(400, {"errorMessages": ["Invalid request payload. Refer to the REST API documentation."]})
    unknown = set(given) - known
    if unknown:
        raise Refused(400, {"errorMessages": [f"Unrecognized field {', '.join(sorted(unknown))}"], "errors": {}})
    return given


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _words(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.lower()))

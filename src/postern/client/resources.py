"""One small class for each resource of the API. Names or ids may be given wherever the API takes both."""

from __future__ import annotations

import base64
import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast
from urllib.parse import quote

from postern.client.http import Http
from postern.client.shapes import (
    Agent,
    Connection,
    Credential,
    EventTriple,
    ExecResult,
    GuardRail,
    IssuedCredential,
    MaskedSamples,
    MaskingRule,
    Review,
    Row,
    RowPage,
    Session,
    SessionPage,
)
from postern.domain.agent import AgentMode
from postern.domain.secret import Secret
from postern.errors import Conflict, NotFound

PAGE = 100  # rows; the most that the API gives at once


def _path(*parts: str) -> str:
    """A part that holds a slash or a question mark stays one part."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def prefer(wait: int | None) -> dict[str, str] | None:
    return None if wait is None else {"Prefer": f"wait={wait}"}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Connections:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, **filters: str | None) -> list[Connection]:
        """Filters of the API: name, type, subtype, search, tag_selector, agent_id."""
        return cast("list[Connection]", self._http.all("/connections", query=filters))

    def get(self, name: str) -> Connection:
        return cast(Connection, self._http.call("GET", _path("connections", name)))

    def access(self, name: str, user: str | None = None) -> Row:
        """Why somebody, oneself when None, may use it or not."""
        return cast(Row, self._http.call("GET", _path("connections", name, "access"), query={"user": user}))

    def test(self, name: str) -> Row:
        """A real login to the target. Raises Malformed with the reason when that fails."""
        return cast(Row, self._http.call("GET", _path("connections", name, "test")))

    def databases(self, name: str) -> Row:
        return cast(Row, self._http.call("GET", _path("connections", name, "databases")))

    def tables(self, name: str, *, database: str | None, schema: str | None) -> Row:
        query = {"database": database, "schema": schema}
        return cast(Row, self._http.call("GET", _path("connections", name, "tables"), query=query))

    def columns(self, name: str, table: str, *, database: str | None, schema: str | None) -> Row:
        query = {"table": table, "database": database, "schema": schema}
        return cast(Row, self._http.call("GET", _path("connections", name, "columns"), query=query))

    def host_keys(self, name: str) -> builtins.list[Row]:
        return cast("builtins.list[Row]", self._http.all(_path("connections", name, "hostkeys")))

    def forget_host_keys(self, name: str) -> None:
        self._http.call("DELETE", _path("connections", name, "hostkeys"))

    def create(self, body: dict[str, Any]) -> Connection:
        return cast(Connection, self._http.call("POST", "/connections", body=body))

    def update(self, name: str, body: dict[str, Any]) -> Connection:
        """Only the fields given are changed."""
        return cast(Connection, self._http.call("PATCH", _path("connections", name), body=body))

    def delete(self, name: str) -> None:
        self._http.call("DELETE", _path("connections", name))


class Agents:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> list[Agent]:
        return cast("list[Agent]", self._http.all("/agents"))

    def id_of(self, name_or_id: str | None) -> str:
        """None is `default`. Raises NotFound, Conflict."""
        if name_or_id is None:
            return self.default()
        return str(cast("Agent", self._http.call("GET", _path("agents", name_or_id)))["id"])

    def default(self) -> str:
        """The id of the agent that a connection gets when none is named: the gateway's own, or the only one.

        Raises NotFound, Conflict."""
        found = self.list()
        own = [agent for agent in found if agent["mode"] == AgentMode.GATEWAY] or found
        if not own:
            raise NotFound("this gateway has no agent yet, so nothing can reach a target")
        if len(own) > 1:
            names = ", ".join(agent["name"] for agent in own)
            raise Conflict(f"several agents could serve it: {names}; choose one by --agent")
        return own[0]["id"]


class Credentials:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, connection: str) -> list[Credential]:
        return cast("list[Credential]", self._http.all(_path("connections", connection, "credentials")))

    def issue(self, connection: str, seconds: int | None = None) -> IssuedCredential:
        """`seconds` is its life; None leaves that to the gateway."""
        body = {} if seconds is None else {"access_duration_seconds": seconds}
        path = _path("connections", connection, "credentials")
        return cast(IssuedCredential, self._http.call("POST", path, body=body))

    def revoke(self, connection: str, credential_id: str) -> None:
        self._http.call("POST", _path("connections", connection, "credentials", credential_id, "revoke"))


class GuardRails:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> list[GuardRail]:
        return cast("list[GuardRail]", self._http.all("/guardrails"))

    def get(self, rule_id: str) -> GuardRail:
        return cast(GuardRail, self._http.call("GET", _path("guardrails", rule_id)))

    def create(self, body: dict[str, Any]) -> GuardRail:
        return cast(GuardRail, self._http.call("POST", "/guardrails", body=body))

    def update(self, rule_id: str, body: dict[str, Any]) -> GuardRail:
        return cast(GuardRail, self._http.call("PUT", _path("guardrails", rule_id), body=body))

    def delete(self, rule_id: str, *, force: bool = False) -> None:
        """`force`: also one that applies to connections. Raises Conflict."""
        self._http.call("DELETE", _path("guardrails", rule_id), query={"force": "true"} if force else None)

    def presets(self) -> builtins.list[dict[str, Any]]:
        return cast("builtins.list[dict[str, Any]]", self._http.call("GET", "/guardrails/presets"))

    def test(self, body: dict[str, Any]) -> dict[str, Any]:
        return cast("dict[str, Any]", self._http.call("POST", "/guardrails/test", body=body))

    def simulate(self, rule_id: str | None, body: dict[str, Any]) -> AbstractContextManager[Iterator[str]]:
        """Lines of JSON: progress, and the result at last. None: of the draft in the body alone."""
        path = "/guardrails/simulate" if rule_id is None else _path("guardrails", rule_id, "simulate")
        return self._http.lines(path, body=body)


class MaskingRules:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> list[MaskingRule]:
        return cast("list[MaskingRule]", self._http.all("/datamasking-rules"))

    def get(self, rule_id: str) -> MaskingRule:
        return cast(MaskingRule, self._http.call("GET", _path("datamasking-rules", rule_id)))

    def create(self, body: dict[str, Any]) -> MaskingRule:
        return cast(MaskingRule, self._http.call("POST", "/datamasking-rules", body=body))

    def update(self, rule_id: str, body: dict[str, Any]) -> MaskingRule:
        return cast(MaskingRule, self._http.call("PUT", _path("datamasking-rules", rule_id), body=body))

    def delete(self, rule_id: str, *, force: bool = False) -> None:
        """`force`: also one that applies to connections. Raises Conflict."""
        self._http.call("DELETE", _path("datamasking-rules", rule_id), query={"force": "true"} if force else None)

    def presets(self) -> builtins.list[Row]:
        return cast("builtins.list[Row]", self._http.call("GET", "/datamasking-rules/presets"))

    def test(self, body: dict[str, Any]) -> MaskedSamples:
        return cast(MaskedSamples, self._http.call("POST", "/datamasking-rules/test", body=body))


class Reports:
    def __init__(self, http: Http) -> None:
        self._http = http

    def masking(self, **query: str | int | None) -> Row:
        """As the API has them: group_by, start_date, end_date, time_zone, id, user, connection, type, verb, limit,
        offset."""
        return cast(Row, self._http.call("GET", "/reports/sessions", query=query))

    def activity(self, **query: str | None) -> Row:
        """by, group_by, start_date, end_date, time_zone, user, connection, type, verb."""
        return cast(Row, self._http.call("GET", "/reports/activity", query=query))

    def reviews(self, **query: str | None) -> Row:
        """group_by, start_date, end_date, time_zone."""
        return cast(Row, self._http.call("GET", "/reports/reviews", query=query))

    def rebuild(self) -> None:
        self._http.call("POST", "/reports/rebuild")


class Sessions:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, **filters: Any) -> SessionPage:
        """Filters of the API, `limit`, `offset` or `cursor`, `count`; `expand="matches"` with a `search`."""
        return cast(SessionPage, self._http.call("GET", "/sessions", query=filters))

    def each(self, **filters: Any) -> Iterator[Session]:
        """All that fit, page by page; sessions that begin meanwhile change nothing."""
        while True:
            page = self.list(**{**filters, "limit": PAGE, "count": "none"})
            yield from page["data"]
            if not page["has_next_page"]:
                return
            filters = {**filters, "offset": None, "cursor": page["next_cursor"]}

    def get(self, session_id: str, *, expand: bool = False) -> Session:
        """`expand` brings the script and the events along."""
        query = {"expand": ["event_stream", "session_input"]} if expand else None
        return cast(Session, self._http.call("GET", _path("sessions", session_id), query=query))

    def events(self, session_id: str, kinds: str | None = None) -> Iterator[EventTriple]:
        """All that was recorded, page by page; of these `kinds`: "o,e", and "r" for sizes of a terminal."""
        cursor = "0-0"
        while cursor:
            query = {"expand": "event_stream", "cursor": cursor, "events": kinds}
            answer = self._http.send("GET", _path("sessions", session_id), query=query)
            yield from answer.json()["event_stream"]
            cursor = answer.headers.get("Next-Cursor", "")

    def timeline(self, session_id: str, *, output: int = 0, start: float = 0.0) -> Iterator[Row]:
        """Its exchanges, page by page; `output` is how many bytes of what was shown come with each. From `start` on,
        in milliseconds."""
        cursor: str | None = None
        while True:
            query = {"output": output or None, "cursor": cursor, "from": start or None}
            page = self._http.call("GET", _path("sessions", session_id, "timeline"), query=query)
            yield from page["data"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def stream(self, session_id: str, last: str | None) -> AbstractContextManager[Iterator[str]]:
        """The lines of its server-sent events, behind the event `last`."""
        headers = {"Last-Event-ID": last} if last else {}
        return self._http.lines(_path("sessions", session_id, "stream"), headers=headers)

    def export(self, session_id: str, form: str, **query: str | None) -> AbstractContextManager[Iterator[bytes]]:
        """The session as a file: `form` and parameters are the API's."""
        wanted = {"format": form, **query}
        return self._http.pieces(_path("sessions", session_id, "export"), query=wanted)

    def kill(self, session_id: str) -> None:
        self._http.call("POST", _path("sessions", session_id, "kill"))

    def results(self, session_id: str, form: str) -> AbstractContextManager[Iterator[bytes]]:
        """What a script answered, all of it as far as its recording goes: `form` is text, json or csv."""
        return self._http.pieces(_path("sessions", session_id, "results"), query={"format": form})

    def execute(
        self,
        connection: str,
        script: str,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        *,
        reason: str = "",
        tracker_fields: Mapping[str, str] | None = None,
        wait: int | None = None,
    ) -> ExecResult:
        """Answers when the script has ended, or after `wait` seconds, at most and by default 50, with output_status
        `running`; at once with `waiting` where it needs a review, whose readers are told the `reason`. `arguments` and
        `environment` are for commands, `tracker_fields` for the issue that it opens."""
        body: dict[str, Any] = {"connection": connection, "script": script}
        if reason:
            body["reason"] = reason
        if tracker_fields:
            body["tracker_fields"] = dict(tracker_fields)
        if arguments:
            body["client_args"] = [*arguments]
        if environment:
            body["env_vars"] = {f"envvar:{name}": _base64(value) for name, value in environment.items()}
        return cast(ExecResult, self._http.call("POST", "/sessions", body=body, headers=prefer(wait)))

    def execution(self, session_id: str, *, wait: int | None = None) -> ExecResult:
        """What `execute` answers, of a script that waits, runs already or has ended."""
        path = _path("sessions", session_id, "exec")
        return cast(ExecResult, self._http.call("GET", path, headers=prefer(wait)))

    def run_reviewed(self, session_id: str, *, wait: int | None = None) -> ExecResult:
        """Runs a script whose review is approved, once, and answers as `execute` does."""
        path = _path("sessions", session_id, "exec")
        return cast(ExecResult, self._http.call("POST", path, headers=prefer(wait)))


class Runbooks:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, **filters: str | None) -> Row:
        """Where each may be run, too. Filters of the API: connection_name, remove_empty_connections."""
        query = {**filters, "list_connections": "true"}
        return cast(Row, self._http.call("GET", "/runbooks", query=query))

    def get(self, name: str, repository: str | None) -> Row:
        """With its text. `repository` may be None where there is one only."""
        return cast(Row, self._http.call("GET", "/runbooks/file", query={"name": name, "repository": repository}))


class Reviews:
    """An identifier is the review's, or that of the session that waits for it."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def all(self, **filters: str | None) -> list[Review]:
        """Filters of the API: status, type, connection, session, owner, waiting_for_me."""
        return cast("list[Review]", self._http.all("/reviews", query=filters))

    def get(self, review_id: str) -> Review:
        return cast(Review, self._http.call("GET", _path("reviews", review_id)))

    def decide(
        self,
        review_id: str,
        status: str,
        *,
        comment: str = "",
        force: bool = False,
        time_window: dict[str, Any] | None = None,
    ) -> Review:
        """`status` is APPROVED, REJECTED or REVOKED; `time_window` as the API has it. Raises Denied, Conflict."""
        body: dict[str, Any] = {"status": status, "comment": comment}
        if force:
            body["force_review"] = True
        if time_window is not None:
            body["time_window"] = time_window
        return cast(Review, self._http.call("PUT", _path("reviews", review_id), body=body))

    def request(self, connection: str, *, reason: str = "", duration: int | None = None) -> Review | None:
        """Ask for access before connecting; `duration` is in seconds. None where no approval is required."""
        body: dict[str, Any] = {"connection": connection, "reason": reason}
        if duration is not None:
            body["access_duration"] = duration
        return cast("Review | None", self._http.call("POST", _path("reviews"), body=body)["review"])

    def withdraw(self, review_id: str) -> Review:
        """One's own. Raises Conflict."""
        return cast(Review, self._http.call("POST", _path("reviews", review_id, "withdraw")))


class SecondFactors:
    """One's own. `proof` is `current_password`, or `code` and `code_kind`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Row:
        """`data` and `recovery_codes_left`."""
        return cast(Row, self._http.call("GET", "/users/self/second-factors"))

    def begin(self, name: str, proof: dict[str, str]) -> Row:
        """An authenticator app; `id`, `secret` and `uri`."""
        body = {"kind": "totp", "name": name, **proof}
        return cast(Row, self._http.call("POST", "/users/self/second-factors", body=body))

    def confirm(self, factor_id: str, code: Secret) -> builtins.list[str]:
        """Recovery codes, with the first one. Raises Invalid when the code is wrong."""
        path = _path("users", "self", "second-factors", factor_id, "confirm")
        answer = self._http.call("POST", path, body={"code": "".join(code.reveal().split())})
        return list(answer["recovery_codes"])

    def remove(self, factor_id: str, proof: dict[str, str]) -> None:
        self._http.call("DELETE", _path("users", "self", "second-factors", factor_id), body=proof)

    def renew_codes(self, proof: dict[str, str]) -> builtins.list[str]:
        answer = self._http.call("POST", "/users/self/second-factors/recovery-codes", body=proof)
        return list(answer["recovery_codes"])


class SshLogins:
    """SSH clients that wait for the caller."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def look(self, code: str) -> Row:
        """Raises NotFound."""
        return cast(Row, self._http.call("GET", "/sshlogins", query={"code": code}))

    def decide(self, code: str, answer: str, number: str = "") -> Row:
        """`answer` is allow or deny. Raises NotFound, Denied."""
        body = {"code": code, "answer": answer, "number": number}
        return cast(Row, self._http.call("POST", "/sshlogins/confirm", body=body))


class Collection:
    """A resource with the API's one list style, below a path. Rows are the API's answers as they came."""

    def __init__(self, http: Http, *parts: str) -> None:
        self._http = http
        self._parts = parts

    def page(self, limit: int | None = None, offset: int = 0, **filters: Any) -> RowPage:
        query = {"limit": limit, "offset": offset, **filters}
        return cast(RowPage, self._http.call("GET", _path(*self._parts), query=query))

    def everything(self, **filters: Any) -> RowPage:
        """Return all pages as one. A list without cursors that changes meanwhile may show a row twice or not at all."""
        rows = self._http.all(_path(*self._parts), query=filters)
        return {"data": rows, "total": len(rows), "has_next_page": False}

    def get(self, key: str) -> Row:
        return cast(Row, self._http.call("GET", _path(*self._parts, key)))

    def create(self, body: Row) -> Row:
        return cast(Row, self._http.call("POST", _path(*self._parts), body=body))

    def update(self, key: str, body: Row) -> Row:
        """What is left out stays as it is."""
        return cast(Row, self._http.call("PUT", _path(*self._parts, key), body=body))

    def patch(self, key: str, body: Row) -> Row:
        """Change the given fields alone."""
        return cast(Row, self._http.call("PATCH", _path(*self._parts, key), body=body))

    def delete(self, key: str) -> None:
        self._http.call("DELETE", _path(*self._parts, key))

    def act(self, *parts: str, body: Row | None = None, method: str = "POST", **query: Any) -> Any:
        """What is below a row, such as `("ann", "setup-link")`."""
        return self._http.call(method, _path(*self._parts, *parts), body=body, query=query or None)

    def below(self, *parts: str) -> Collection:
        return Collection(self._http, *self._parts, *parts)

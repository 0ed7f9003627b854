"""The API's resources: `Collection` for all that are listed, created, changed and deleted, and a class for each part of
the API that works differently."""

from __future__ import annotations

import base64
import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Any, cast
from urllib.parse import quote

from postern.client.client_http import Http
from postern.client.client_shapes import EventTriple, ExecResult, ReviewShape, Row, RowPage, SessionPage, SessionShape
from postern.domain.resource_identifiers import is_identifier
from postern.domain.secret import Secret
from postern.errors import NotFound

PAGE = 100  # rows; the maximum of one answer


def _path(*parts: str) -> str:
    """Return a URL path in which a part with a slash or a question mark stays one part."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


def prefer(wait: int | None) -> dict[str, str] | None:
    return None if wait is None else {"Prefer": f"wait={wait}"}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class CredentialsClient:
    """Credentials of connections, for native clients."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def issue(self, connection: str, seconds: int | None = None) -> Row:
        """Issue a credential that is valid for that many seconds; None leaves it to the gateway."""
        body = {} if seconds is None else {"access_duration_seconds": seconds}
        path = _path("connections", connection, "credentials")
        return cast(Row, self._http.call("POST", path, body=body))


class ReportsClient:
    def __init__(self, http: Http) -> None:
        self._http = http

    def masking(self, **query: str | int | None) -> Row:
        """Parameters of the API: group_by, start_date, end_date, time_zone, id, user, connection, type, verb, limit,
        offset."""
        return cast(Row, self._http.call("GET", "/reports/sessions", query=query))

    def activity(self, **query: str | None) -> Row:
        """Parameters of the API: by, group_by, start_date, end_date, time_zone, user, connection, type, verb."""
        return cast(Row, self._http.call("GET", "/reports/activity", query=query))

    def reviews(self, **query: str | None) -> Row:
        """Parameters of the API: group_by, start_date, end_date, time_zone."""
        return cast(Row, self._http.call("GET", "/reports/reviews", query=query))

    def rebuild(self) -> None:
        self._http.call("POST", "/reports/rebuild")


class SessionsClient:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, **filters: Any) -> SessionPage:
        """Filters of the API, `limit`, `offset` or `cursor`, `count`; `expand="matches"` with a `search`."""
        return cast(SessionPage, self._http.call("GET", "/sessions", query=filters))

    def each(self, **filters: Any) -> Iterator[SessionShape]:
        """Yield all matching sessions, page by page; sessions that begin meanwhile change nothing."""
        while True:
            page = self.list(**{**filters, "limit": PAGE, "count": "none"})
            yield from page["data"]
            if not page["has_next_page"]:
                return
            filters = {**filters, "offset": None, "cursor": page["next_cursor"]}

    def get(self, session_id: str, *, expand: bool = False) -> SessionShape:
        """Return a session; `expand` includes the script and the events."""
        query = {"expand": ["event_stream", "session_input"]} if expand else None
        return cast(SessionShape, self._http.call("GET", _path("sessions", session_id), query=query))

    def events(self, session_id: str, kinds: str | None = None) -> Iterator[EventTriple]:
        """Yield the recording, page by page; of these `kinds`: "o,e", and "r" for sizes of a terminal."""
        cursor = "0-0"
        while cursor:
            query = {"expand": "event_stream", "cursor": cursor, "events": kinds}
            answer = self._http.send("GET", _path("sessions", session_id), query=query)
            yield from answer.json()["event_stream"]
            cursor = answer.headers.get("Next-Cursor", "")

    def timeline(self, session_id: str, *, output: int = 0, start: float = 0.0) -> Iterator[Row]:
        """Yield the exchanges, page by page; `output` is the number of bytes of output of each. From `start` on, in
        milliseconds."""
        cursor: str | None = None
        while True:
            query = {"output": output or None, "cursor": cursor, "from": start or None}
            page = self._http.call("GET", _path("sessions", session_id, "timeline"), query=query)
            yield from page["data"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def stream(self, session_id: str, last: str | None) -> AbstractContextManager[Iterator[str]]:
        """Return the lines of the session's server-sent events, after the event `last`."""
        headers = {"Last-Event-ID": last} if last else {}
        return self._http.lines(_path("sessions", session_id, "stream"), headers=headers)

    def export(self, session_id: str, form: str, **query: str | None) -> AbstractContextManager[Iterator[bytes]]:
        """Return the session as a file: `form` and parameters are the API's."""
        parameters = {"format": form, **query}
        return self._http.pieces(_path("sessions", session_id, "export"), query=parameters)

    def kill(self, session_id: str) -> None:
        self._http.call("POST", _path("sessions", session_id, "kill"))

    def results(self, session_id: str, form: str) -> AbstractContextManager[Iterator[bytes]]:
        """Return the results of a script from its recording: `form` is text, json or csv."""
        return self._http.pieces(_path("sessions", session_id, "results"), query={"format": form})

    def result_lines(self, session_id: str, from_row: int, *, follows: bool) -> AbstractContextManager[Iterator[str]]:
        """Return the results of a script as lines of JSON, from this row on. `follows`: while it runs."""
        query = {"format": "ndjson", "from_row": from_row or None, "follow": "true" if follows else None}
        headers = {"Accept": "application/x-ndjson"}
        return self._http.lines(_path("sessions", session_id, "results"), query=query, headers=headers)

    def execute(
        self,
        connection: str,
        script: str,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        *,
        reason: str = "",
        parameters: Mapping[str, str] | None = None,
        tracker_fields: Mapping[str, str] | None = None,
        wait: int | None = None,
    ) -> ExecResult:
        """Run a script. Returns when it has ended, or after `wait` seconds (by default and at most 50) with
        output_status `running`; at once with `waiting` if it needs a review, whose reviewers see the `reason`.
        `parameters` are for the script's placeholders, `arguments` and `environment` for commands, `tracker_fields` for
        the issue that it opens."""
        body: dict[str, Any] = {"connection": connection, "script": script}
        if reason:
            body["reason"] = reason
        if tracker_fields:
            body["tracker_fields"] = dict(tracker_fields)
        if parameters:
            body["parameters"] = dict(parameters)
        if arguments:
            body["client_args"] = [*arguments]
        if environment:
            body["env_vars"] = {f"envvar:{name}": _base64(value) for name, value in environment.items()}
        return cast(ExecResult, self._http.call("POST", "/sessions", body=body, headers=prefer(wait)))

    def execution(self, session_id: str, *, wait: int | None = None) -> ExecResult:
        """Return the answer of `execute` for a script that waits, runs or has ended."""
        path = _path("sessions", session_id, "exec")
        return cast(ExecResult, self._http.call("GET", path, headers=prefer(wait)))

    def run_reviewed(self, session_id: str, *, wait: int | None = None) -> ExecResult:
        """Run a script whose review is approved, once; return the answer of `execute`."""
        path = _path("sessions", session_id, "exec")
        return cast(ExecResult, self._http.call("POST", path, headers=prefer(wait)))


class Runbooks:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, **filters: str | None) -> Row:
        """Return runbooks, with the connections where each can run. Filters of the API: connection_name,
        remove_empty_connections."""
        query = {**filters, "list_connections": "true"}
        return cast(Row, self._http.call("GET", "/runbooks", query=query))

    def get(self, name: str, repository: str | None) -> Row:
        """Return a runbook with its text. `repository` can be None if there is only one."""
        return cast(Row, self._http.call("GET", "/runbooks/file", query={"name": name, "repository": repository}))


class ReviewsClient:
    """Reviews. An identifier is the review's, or that of the session that waits for it."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def all(self, **filters: str | None) -> list[ReviewShape]:
        """Filters of the API: status, type, connection, session, owner, waiting_for_me."""
        return cast("list[ReviewShape]", self._http.all("/reviews", query=filters))

    def get(self, review_id: str) -> ReviewShape:
        return cast(ReviewShape, self._http.call("GET", _path("reviews", review_id)))

    def decide(
        self,
        review_id: str,
        status: str,
        *,
        comment: str = "",
        force: bool = False,
        time_window: dict[str, Any] | None = None,
    ) -> ReviewShape:
        """Decide a review. `status` is APPROVED, REJECTED or REVOKED; `time_window` is as in the API. Raises Denied,
        Conflict."""
        body: dict[str, Any] = {"status": status, "comment": comment}
        if force:
            body["force_review"] = True
        if time_window is not None:
            body["time_window"] = time_window
        return cast(ReviewShape, self._http.call("PUT", _path("reviews", review_id), body=body))

    def request(
        self,
        connection: str,
        *,
        reason: str = "",
        duration: int | None = None,
        time_window: dict[str, Any] | None = None,
        credential_id: str | None = None,
    ) -> ReviewShape | None:
        """Request access before connecting; `duration` is in seconds, `time_window` is as in the API. The access is for
        this login, or for a credential. None if no approval is required."""
        body: dict[str, Any] = {"connection": connection, "reason": reason}
        if credential_id is not None:
            body["credential_id"] = credential_id
        if duration is not None:
            body["access_duration"] = duration
        if time_window is not None:
            body["time_window"] = time_window
        return cast("ReviewShape | None", self._http.call("POST", _path("reviews"), body=body)["review"])

    def withdraw(self, review_id: str) -> ReviewShape:
        """Withdraw the caller's own review. Raises Conflict."""
        return cast(ReviewShape, self._http.call("POST", _path("reviews", review_id, "withdraw")))


class SecondFactorsClient:
    """The caller's second factors. `proof` is `current_password`, or `code` and `code_kind`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> Row:
        """Return `data` and `recovery_codes_left`."""
        return cast(Row, self._http.call("GET", "/users/self/second-factors"))

    def begin(self, name: str, proof: dict[str, str]) -> Row:
        """Begin to add an authenticator app; return `id`, `secret` and `uri`."""
        body = {"kind": "totp", "name": name, **proof}
        return cast(Row, self._http.call("POST", "/users/self/second-factors", body=body))

    def confirm(self, factor_id: str, code: Secret) -> builtins.list[str]:
        """Confirm the app; return the recovery codes with the first one. Raises Invalid if the code is wrong."""
        path = _path("users", "self", "second-factors", factor_id, "confirm")
        answer = self._http.call("POST", path, body={"code": "".join(code.reveal().split())})
        return list(answer["recovery_codes"])

    def remove(self, factor_id: str, proof: dict[str, str]) -> None:
        self._http.call("DELETE", _path("users", "self", "second-factors", factor_id), body=proof)

    def renew_codes(self, proof: dict[str, str]) -> builtins.list[str]:
        answer = self._http.call("POST", "/users/self/second-factors/recovery-codes", body=proof)
        return list(answer["recovery_codes"])


class SshLoginsClient:
    """SSH clients that wait for the caller."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def look(self, code: str) -> Row:
        """Raises NotFound."""
        return cast(Row, self._http.call("GET", "/sshlogins", query={"code": code}))

    def decide(self, code: str, answer: str, number: str = "") -> Row:
        """Decide an SSH login; `answer` is allow or deny. Raises NotFound, Denied."""
        body = {"code": code, "answer": answer, "number": number}
        return cast(Row, self._http.call("POST", "/sshlogins/confirm", body=body))


# Its routes take ids only, and do not return a single item: the client lists organisations to find one.
_ORGANISATIONS = ("orgs",)


class Change(StrEnum):
    """How a collection's route changes some fields of an item."""

    PATCH = "PATCH"
    PUT = "PUT"  # fields that are left out keep their values


# Collections whose items have no PATCH.
_CHANGES: Mapping[tuple[str, ...], Change] = {
    ("feature-flags",): Change.PUT,
    ("orgs",): Change.PUT,
    ("serverconfig",): Change.PUT,
}


class Collection:
    """A resource with the API's list style, below a path. Rows are the API's answers unchanged.

    An item's key is its name or its id.
    """

    def __init__(self, http: Http, *parts: str) -> None:
        self._http = http
        self._parts = parts

    def page(self, limit: int | None = None, offset: int = 0, **filters: Any) -> RowPage:
        query = {"limit": limit, "offset": offset, **filters}
        return cast(RowPage, self._http.call("GET", _path(*self._parts), query=query))

    def everything(self, **filters: Any) -> RowPage:
        """Return all pages as one. A list without cursors that changes meanwhile can repeat or miss a row."""
        rows = self._http.all(_path(*self._parts), query=filters)
        return {"data": rows, "total": len(rows), "has_next_page": False}

    def get(self, key: str) -> Row:
        if self._is_found_by_listing(key):
            return self._find(key)
        return cast(Row, self._http.call("GET", self._item(key)))

    def create(self, body: Row) -> Row:
        return cast(Row, self._http.call("POST", _path(*self._parts), body=body))

    def update(self, key: str, changes: Row) -> Row:
        """Change these fields; fields that are left out keep their values."""
        match _CHANGES.get(self._parts, Change.PATCH):
            case Change.PATCH:
                return cast(Row, self._http.call("PATCH", self._item(key), body=changes))
            case Change.PUT:
                return self.replace(key, changes)

    def replace(self, key: str, body: Row) -> Row:
        return cast(Row, self._http.call("PUT", self._item(key), body=body))

    def delete(self, key: str, **query: str) -> Row | None:
        return cast("Row | None", self._http.call("DELETE", self._item(key), query=query or None))

    def act(self, key: str, *parts: str, body: Row | None = None, method: str = "POST", **query: Any) -> Any:
        """Call what is below a row, such as `("ann", "setup-link")`."""
        return self._http.call(method, self._item(key, *parts), body=body, query=query or None)

    def call(self, *parts: str, body: Row | None = None, method: str = "POST") -> Any:
        """Call what is below the collection itself, such as `("presets",)`."""
        return self._http.call(method, _path(*self._parts, *parts), body=body)

    def lines(self, *parts: str, body: Row) -> AbstractContextManager[Iterator[str]]:
        """POST below the collection, and iterate over the lines of the answer as they come."""
        return self._http.lines(_path(*self._parts, *parts), body=body)

    def below(self, *parts: str) -> Collection:
        return Collection(self._http, *self._parts, *parts)

    def _item(self, key: str, *parts: str) -> str:
        return _path(*self._parts, self._address(key), *parts)

    def _address(self, key: str) -> str:
        """Return the key that the API's routes take for this item. Raises NotFound."""
        if not self._is_found_by_listing(key):
            return key
        try:
            return str(self._find(key)["id"])
        except NotFound:
            if is_identifier(key):
                return key  # an id that the list does not show; the API decides
            raise

    def _is_found_by_listing(self, key: str) -> bool:
        return self._parts == _ORGANISATIONS and key != "self"

    def _find(self, key: str) -> Row:
        """Return the listed item; a name takes precedence over an equal id. Raises NotFound."""
        rows = self.everything()["data"]
        for field in ("name", "id"):
            for row in rows:
                if row[field] == key:
                    return row
        raise NotFound(f"there is no organisation {key!r}")

"""Hostile content in recordings is stored exactly, and is harmless wherever it is shown."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from tests.support import wire
from tests.support.accounts import ok, reach, signed_in
from tests.support.agents import url_of
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.running import Gateway, started
from tests.support.syslog import Syslog

TERMINAL = "\x1b]52;c;ZWNobyBoYWNrZWQ=\x07\x1b[2J\x1b[6n\x1b]0;title\x07\x9b6n\x90+q\x9c"
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(1)>"
FORMULA = '=HYPERLINK("http://127.0.0.1/?"&A1,"total")'
BIDI = "\u202egpj.exe\u202c\u2066 \u2069\u200f\u061c"
LINES = "one\r\nSet-Cookie: a=b\r\n\r\ntwo\x0bthree\x85four\u2028five\u2029six\rseven"
HOSTILE = TERMINAL + SCRIPT + BIDI + LINES
# What may steer a terminal or change how a line reads: controls but for tab and newline, and those of text direction.
STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
PRINTED = b"\x1b]52;c;eA==\x07\x1b[6n<b>\xff\xfe\x00=1+1\r\n\xe2\x80\xaeend"  # at a terminal, or through pipes


@pytest.fixture(scope="module")
def gateway(target: PostgresServer) -> Iterator[Gateway]:
    flags = ("--no-demo", "--gateway-commands", "--sink-networks", "127.0.0.1")
    with started(*flags, RECORDING_OUTPUT_LIMIT=str(1 << 30)) as made:
        reach(made, "target", target.port, "--tag", "note=x")
        ok(made, "connections", "create", "shell", "--command", "bash --norc")
        yield made


@pytest.fixture(scope="module")
def api(gateway: Gateway) -> httpx.Client:
    return signed_in(gateway)


@pytest.fixture(scope="module")
def told(gateway: Gateway, api: httpx.Client) -> Iterator[Syslog]:
    listener = Syslog()
    listener.start()
    sink = {"name": "siem", "kind": "syslog", "address": f"syslog+tcp://127.0.0.1:{listener.port}"}
    answer = api.post("/sinks", json={**sink, "events": ["session.open", "session.close", "audit.entry"]})
    assert answer.status_code == 201, answer.text
    yield listener
    listener.socket.close()


@pytest.fixture(scope="module")
def session(gateway: Gateway, told: Syslog) -> dict[str, Any]:
    """At a database: statement, value, column, answer, error and application_name are hostile."""
    url = url_of(gateway, "target")
    with psycopg.connect(url, autocommit=True, application_name=HOSTILE) as client:
        quoted = HOSTILE.replace("'", "''")
        assert client.execute(f"select '{quoted}' as \"{SCRIPT}\"").fetchone() == (HOSTILE,)
        assert client.execute("select %s::text, %s::text", [FORMULA, HOSTILE]).fetchone() == (FORMULA, HOSTILE)
        with pytest.raises(psycopg.Error):
            client.execute(f"do $$ begin raise exception '%', '{quoted}'; end $$")
    return ended(gateway, "target")


def ended(gateway: Gateway, connection: str) -> dict[str, Any]:
    def newest() -> dict[str, Any] | None:
        found = gateway.sessions("--connection", connection)[0]
        return found if found["status"] == "done" else None

    return wait_until(newest, 60)


def events(api: httpx.Client, session_id: str, kinds: str = "i,o,e") -> list[tuple[str, bytes]]:
    answer = api.get(f"/sessions/{session_id}", params={"expand": "event_stream", "events": kinds})
    assert answer.is_success, answer.text
    return [(kind, base64.b64decode(content)) for _, kind, content in answer.json()["event_stream"]]


def joined(api: httpx.Client, session_id: str, kind: str) -> bytes:
    return b"".join(content for found, content in events(api, session_id) if found == kind)


def harmless(text: str, what: str) -> None:
    found = STEERS.search(text)
    assert found is None, f"{what} has {found[0]!r} in {text[max(0, found.start() - 60) : found.end() + 60]!r}"


def test_hostile_content_is_stored_exactly(api: httpx.Client, session: dict[str, Any]) -> None:
    assert HOSTILE.replace("'", "''").encode() in joined(api, session["id"], "i")
    shown = joined(api, session["id"], "o").decode()
    assert HOSTILE.replace("\r", "\\r").replace("\n", "\\n") in shown  # as COPY's text format has it
    assert FORMULA in shown
    assert HOSTILE in joined(api, session["id"], "e").decode()


@pytest.mark.parametrize(
    "command",
    [
        "sessions list",
        "sessions list --json",
        "sessions list --all",
        "sessions show ID",
        "sessions show ID --output",
        "sessions show ID --json",
        "sessions replay ID --speed 1000",
        "sessions watch ID",
        "sessions watch ID --json",
        "sessions search select alert",
        "sessions search alert --json",
        "reports sessions",
        "reports activity --group-by user",
        "reports activity --group-by connection --json",
        "admin audit list",
        "admin audit list --json",
        "connections list",
        "connections show target",
    ],
)
def test_commands_show_hostile_content_escaped(gateway: Gateway, session: dict[str, Any], command: str) -> None:
    if "search" in command:
        wait_until(lambda: gateway.run("sessions", "search", "alert").stdout, 60)
    if "activity" in command:  # sessions are counted some time after they have ended
        wait_until(lambda: gateway.run("reports", "activity", "--group-by", "user").stdout, 60)
    shown = gateway.run(*command.replace("ID", session["id"]).split())
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout or "Nothing was masked" in shown.stderr
    harmless(shown.stdout, command)
    harmless(shown.stderr, command)


def test_hostile_value_stays_one_csv_field_and_no_formula(api: httpx.Client, session: dict[str, Any]) -> None:
    answer = api.get(f"/sessions/{session['id']}", params={"extension": "csv", "events": "o"})
    found = list(csv.reader(io.StringIO(answer.content.decode(), newline="")))
    assert [f"'{FORMULA}", HOSTILE.replace("\r", "\\r").replace("\n", "\\n")] in found


def test_api_answers_have_correct_types_and_intact_headers(api: httpx.Client, session: dict[str, Any]) -> None:
    """JSON is JSON, files are attachments, content is not sniffed, and no name breaks a header."""
    for path in ("", "?extension=html", "?extension=json", "?extension=csv", "/export?format=timeline", "/timeline"):
        answer = api.get(f"/sessions/{session['id']}{path}")
        assert answer.is_success, (path, answer.text)
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in ("application/json", "text/csv", "application/octet-stream", "application/x-ndjson")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in answer.headers
        if path and path != "/timeline":
            assert re.fullmatch(r'attachment; filename="[A-Za-z0-9._-]+"', answer.headers["content-disposition"])
        if kind == "application/json":
            assert answer.json()
    lines = api.get(f"/sessions/{session['id']}/export?format=timeline").content.rstrip(b"\n").split(b"\n")
    assert any(json.loads(line)["statement"] == "select $1::text, $2::text" for line in lines)
    assert any(HOSTILE in json.loads(line)["values"] for line in lines)


def test_each_field_of_the_event_stream_is_one_line(api: httpx.Client, session: dict[str, Any]) -> None:
    with api.stream("GET", f"/sessions/{session['id']}/stream") as answer:
        content = b"".join(answer.iter_bytes())
    for line in content.split(b"\n"):
        assert re.match(rb"(id|event|data|retry): |:|$", line), line
        if line.startswith(b"data: "):
            json.loads(line[6:])
        assert b"\r" not in line


def test_hostile_content_is_one_line_in_logs_and_sinks(gateway: Gateway, session: dict[str, Any], told: Syslog) -> None:
    def about() -> list[bytes]:
        return [one for one in told.messages if session["id"].encode() in one and b"session.close" in one]

    [message] = wait_until(about, 60)
    harmless(message.decode(), "syslog")
    assert b"\n" not in message
    for line in gateway.log.splitlines():
        harmless(line, "the log")
    assert all(re.match(r"\d{4}-\d\d-\d\dT", line) for line in gateway.log.split("\n")[:-1])


@pytest.mark.parametrize("name", [HOSTILE, "a\r\nb", "a\x1b[2Jb", "../../etc", "<script>", "=1+1"])
def test_hostile_connection_name_is_rejected(api: httpx.Client, name: str) -> None:
    agent = api.get("/agents").json()["data"][0]["id"]
    body = {"name": name, "type": "database", "subtype": "postgres", "agent_id": agent}
    assert api.post("/connections", json=body).status_code in (400, 422)


def test_hostile_labels_and_user_names_are_shown_escaped_or_rejected(
    gateway: Gateway, api: httpx.Client, told: Syslog
) -> None:
    wanted = {
        "connection": "target",
        "script": "select 1",
        "labels": {"team": HOSTILE},
        "metadata": {"ticket": HOSTILE},
    }
    answer = api.post("/sessions", json=wanted)
    if answer.is_success:
        session = answer.json()["session_id"]
        found = api.get(f"/sessions/{session}").json()
        assert (found["labels"]["team"], found["metadata"]["ticket"]) == (HOSTILE, HOSTILE)
        for command in ("list --json", f"show {session}", f"show {session} --json"):
            harmless(ok(gateway, "sessions", *command.split()), command)
    else:
        assert answer.status_code in (400, 422)
    user = api.post("/users", json={"email": "eve@example.com", "name": HOSTILE, "groups": ["dba"]})
    assert user.status_code in (200, 201, 400, 422)
    for command in ("list", "list --json"):
        harmless(ok(gateway, "admin", "users", *command.split()), command)
    assert user.is_success or answer.is_success or user.status_code != 500


def test_bytes_invalid_in_the_client_encoding_are_recorded_exactly(gateway: Gateway, api: httpx.Client) -> None:
    """In Latin 1 the statement is text; in UTF-8 the target rejects it, and it is recorded byte for byte."""
    url = psycopg.conninfo.conninfo_to_dict(url_of(gateway, "target"))
    for encoding, answered in (("LATIN1", b"gr\xfc\xdfe\xe4"), ("UTF8", b"22021")):
        with wire.connect(int(str(url["port"]))) as stream:
            wire.log_in(stream, str(url["user"]), str(url["password"]), database="postgres", client_encoding=encoding)
            stream.sendall(wire.message(b"Q", b"select 'gr\xfc\xdfe' || chr(228)\0"))
            assert answered in wire.until_ready(stream)
            stream.sendall(wire.message(b"X"))
        wait_until(lambda: not gateway.sessions("--status", "open"))
    second, first = gateway.sessions("--connection", "target")[:2]
    assert "select 'gr\xfc\xdfe' || chr(228)".encode() == joined(api, first["id"], "i")
    assert b"gr\xfc\xdfe\xe4" in joined(api, first["id"], "o")
    assert joined(api, second["id"], "i") == b"select 'gr\xfc\xdfe' || chr(228)"
    session = second
    for command in ("show ID --output", "show ID --json", "watch ID", "replay ID --speed 1000"):
        harmless(ok(gateway, "sessions", *command.replace("ID", session["id"]).split()), command)


def test_binary_program_output_is_recorded_exactly_and_shown_escaped(gateway: Gateway, api: httpx.Client) -> None:
    """The output has NUL and bytes that are not UTF-8."""
    octal = "".join(f"\\{byte:03o}" for byte in PRINTED)
    ok(gateway, "exec", "shell", "-i", f"printf '{octal}'")
    session = ended(gateway, "shell")
    assert PRINTED in joined(api, session["id"], "o")
    answer = api.get(f"/sessions/{session['id']}", params={"extension": "bin", "events": "o"})
    assert answer.content == PRINTED
    told = api.get(f"/sessions/{session['id']}", params={"extension": "json", "events": "o"}).json()
    parts = [base64.b64decode(one["base64"]) if "base64" in one else one["stream"].encode() for one in told]
    assert b"".join(parts) == PRINTED
    for command in ("show ID --output", "show ID --json", "watch ID"):
        shown = ok(gateway, "sessions", *command.replace("ID", session["id"]).split())
        harmless(shown.replace("\r\n", "\n"), command)


@pytest.mark.slow
def test_statement_of_20_mb_is_recorded_and_shown(gateway: Gateway, api: httpx.Client) -> None:
    long = HOSTILE.replace("'", "''") + "x" * (20 << 20)
    with psycopg.connect(url_of(gateway, "target"), autocommit=True) as client:
        assert client.execute(f"select length('{long}')").fetchone() is not None
    session = ended(gateway, "target")
    answer = api.get(f"/sessions/{session['id']}", params={"extension": "txt", "events": "i"})
    assert answer.content == f"select length('{long}')".encode()
    for command in ("show ID", "show ID --output", "watch ID", "list", "replay ID --speed 1000"):
        harmless(ok(gateway, "sessions", *command.replace("ID", session["id"]).split()), command)

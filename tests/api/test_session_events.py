"""GET /sessions/{id} over real recordings: every parameter and what it does with the others (spec 4.2)."""

from __future__ import annotations

import base64
import csv
import io
import json
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.api.conftest import Api, message
from tests.support.spooled import printed, recorded_session, rows

from postern.api.sessions.recording_files import RecordingFileRequest
from postern.domain.sessions.session import Session
from postern.domain.targets.connection import TERMINAL
from postern.interception.events import ClientOutput, Completed, Event, Note, Operation, Refusal, Resized
from postern.protocols.postgres.wire import postgres_messages as pg
from postern.protocols.terminal import terminal_frames as m
from postern.services.recordings import recording_pages

EVENTS: list[tuple[int, Event]] = [
    (1_000, Operation(1, "select note from pets where id = $1", values=(b"7",))),
    (2_500, ClientOutput(rows("Rex, \"wau\"", "=1+1"))),
    (2_500, Completed(1, "SELECT 2", 2, micros=1_500)),
    (9_000, Operation(2, "drop table pets")),
    (9_000, Refusal(2, "no drops", "blocked by no drops")),
    (9_100, ClientOutput(pg.error_response("42501", "blocked by no drops"))),
]  # fmt: skip
INPUTS = [b"select note from pets where id = $1\n-- $1 = '7'", b"drop table pets"]
OUTPUT = b'note\nRex, "wau"\n=1+1\nSELECT 2\n'
ERROR = b"ERROR: blocked by no drops (42501)\n"
TRIPLES: list[list[Any]] = [
    [1.0, "i", INPUTS[0]],
    [2.5, "o", OUTPUT],
    [9.0, "i", INPUTS[1]],
    [9.1, "e", ERROR],
]


@pytest.fixture
async def session(real: Api, home: Path) -> Session:
    return await recorded_session(real, home, EVENTS)


def decoded(shown: dict[str, Any]) -> list[list[Any]]:
    return [[at, kind, base64.b64decode(content)] for at, kind, content in shown["event_stream"]]


EXPANDS = ["", "event_stream", "session_input", "event_stream,session_input"]
FORMS = ["", "utf8", "base64", "raw-queries"]
KINDS = ["", "i", "o", "e", "o,e", "i,o,e"]


async def test_every_combination(real: Api, session: Session) -> None:
    for expand, form, kinds in product(EXPANDS, FORMS, KINDS):
        await check(real, session, expand, form, kinds)


async def check(real: Api, session: Session, expand: str, form: str, kinds: str) -> None:
    query = {"expand": expand, "event_stream": form, "events": kinds}
    answer = await real.as_ann.get(f"/sessions/{session.id}", params={k: v for k, v in query.items() if v})
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert shown["review"] is None
    assert shown["metrics"]["event_size"] == 1234
    chosen = [one for one in TRIPLES if not kinds or one[1] in kinds.split(",")]
    joined = b"".join(bytes(one[2]) for one in chosen if one[1] != "i")
    if not form:
        assert shown["event_size"] == 1234
        if "event_stream" in expand:
            assert decoded(shown) == chosen
        else:
            assert shown["event_stream"] is None
    elif form == "utf8":
        assert (shown["event_stream"], shown["event_size"]) == ([joined.decode()], len(joined))
    elif form == "base64":
        encoded = base64.b64encode(joined).decode()
        assert (shown["event_stream"], shown["event_size"]) == ([encoded], len(encoded))
    else:
        texts = [b"select note from pets where id = $1", b"drop table pets"]
        assert [one[2] for one in decoded(shown)] == texts
        assert shown["event_size"] == sum(map(len, texts))


PLAIN = OUTPUT + ERROR
TIME = "2026-01-02T03:04:05"
CSV_LINES = (b"note\n", b'"Rex, ""wau"""\n', b"'=1+1\n", b"SELECT 2\n")
ERROR_ENTRY = {"time": f"{TIME}.009Z", "type": "e", "stream": ERROR.decode()}


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("extension=txt", PLAIN),
        ("extension=tar.gz", PLAIN),
        ("extension=CSV", PLAIN),  # only `csv` itself means anything
        ("extension=txt&events=i", b"".join(INPUTS)),
        ("extension=txt&events=i&new_line=1", b"".join(one + b"\n" for one in INPUTS)),
        ("extension=txt&events=e&event-time=1", f"{TIME}.009Z ".encode() + ERROR),
        ("extension=txt&from=5", ERROR),
        ("extension=txt&to=5", OUTPUT),
        ("extension=txt&from=5&to=6", b""),
        ("extension=csv&events=o", b'note\n"Rex, ""wau"""\n\'=1+1\nSELECT 2\n'),
        ("extension=csv&events=o&event-time=1", b"".join(TIME.encode() + b".002Z," + line for line in CSV_LINES)),
        ("extension=csv&events=o&new_line=1", b"".join(CSV_LINES) + b'""\n'),
        ("extension=csv&events=e&event-time=1&new_line=1", f"{TIME}.009Z,".encode() + ERROR + b'""\n'),
        ("extension=json&events=e", json.dumps([ERROR_ENTRY]).encode()),
        ("extension=json&events=e&event-time=1", json.dumps([ERROR_ENTRY]).encode()),
        ("extension=json&events=e&new_line=1", json.dumps(ERROR_ENTRY).encode() + b"\n"),
    ],
)
async def test_files(real: Api, session: Session, query: str, content: bytes) -> None:
    answer = await real.as_ann.get(f"/sessions/{session.id}?{query}")
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["content-disposition"].startswith('attachment; filename="shop-')


@pytest.mark.parametrize(
    "query",
    [
        "event_stream=html", "event_stream=UTF8", "event_stream=", "expand=all", "expand=event_stream,x", "events=x",
        "events=io", "event-time=2", "event-time=true", "new_line=yes", "extension=../x", "extension=", "extension=a/b",
        "extension=a%0d%0ab", "extension=..", "extension=%22", "from=-1", "from=x", "from=nan", "to=inf", "cursor=x",
        "cursor=1", "cursor=-1-2", "cursor=1-2-3", "cursor=%C2%B2-1", "limit=0", "limit=10001",
    ],
)  # fmt: skip
async def test_wrong_values_are_422_and_named(real: Api, session: Session, query: str) -> None:
    said = message(await real.as_ann.get(f"/sessions/{session.id}?{query}"), 422)
    assert said.startswith(query.partition("=")[0] + ": ")


async def test_pages_are_the_whole(real: Api, session: Session) -> None:
    for limit in (1, 2, 3, 4, 5):
        found: list[list[Any]] = []
        cursor: str | None = "0-0"
        while cursor:
            url = f"/sessions/{session.id}?expand=event_stream&limit={limit}&cursor={cursor}"
            answer = await real.as_ann.get(url)
            page = decoded(answer.json())
            assert 0 < len(page) <= limit
            found += page
            cursor = answer.headers.get("Next-Cursor")
        assert found == TRIPLES


async def test_a_part_by_time(real: Api, session: Session) -> None:
    async def get(query: str) -> list[list[Any]]:
        return decoded((await real.as_ann.get(f"/sessions/{session.id}?expand=event_stream&{query}")).json())

    assert await get("from=2.5") == TRIPLES[1:]
    assert await get("from=2.501") == TRIPLES[2:]
    assert await get("to=2.5") == TRIPLES[:2]
    assert await get("from=1e300") == []
    shown = (await real.as_ann.get(f"/sessions/{session.id}?event_stream=utf8&from=3")).json()
    assert (shown["event_stream"], shown["event_size"]) == ([ERROR.decode()], len(ERROR))


async def test_too_much_for_one_answer_is_said_and_pages_go_on(
    real: Api, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_pages, "MOST_BYTES", 3_000)
    monkeypatch.setattr(recording_pages, "PAGE_BYTES", 1_500)
    session = await recorded_session(real, home, [(at, Operation(at, "x" * 1000)) for at in range(1, 6)])
    for query in ("expand=event_stream", "event_stream=raw-queries"):
        said = message(await real.as_ann.get(f"/sessions/{session.id}?{query}"), 422)
        assert "`limit` and `cursor`" in said
        assert "`extension`" in said
    answer = await real.as_ann.get(f"/sessions/{session.id}?expand=event_stream&limit=100")
    assert len(answer.json()["event_stream"]) == 1  # as many as fit
    assert answer.headers["Next-Cursor"] == "1-1"
    whole = await real.as_ann.get(f"/sessions/{session.id}?extension=txt&events=i")
    assert len(whole.content) == 5000


async def test_a_terminal_session(real: Api, home: Path) -> None:
    events: list[tuple[int, Event]] = [
        (0, Resized(80, 24)),
        (10, ClientOutput(printed(b"$ "))),
        (20, Operation(1, "ls")),
        (30, ClientOutput(printed(b"a b\r\n") + printed(b"oh\r\n", m.STDERR))),
    ]
    session = await recorded_session(real, home, events, protocol=TERMINAL)
    url = f"/sessions/{session.id}"
    shown = (await real.as_ann.get(f"{url}?expand=event_stream")).json()
    assert [one[1] for one in shown["event_stream"]] == ["o", "i", "o", "e"]
    shown = (await real.as_ann.get(f"{url}?expand=event_stream&events=r")).json()
    assert decoded(shown) == [[0.0, "r", b"80x24"]]
    said = message(await real.as_ann.get(f"{url}?event_stream=raw-queries"), 422)
    assert said.startswith("event_stream: raw-queries needs a session of a database")


async def test_a_session_that_never_began_has_no_events(real: Api) -> None:
    await real.make_connection()
    real.wait_for_no_run()
    made = (await real.as_ann.post("/sessions", json={"connection": "shop", "script": "select 1"})).json()
    for query in ("expand=event_stream", "event_stream=raw-queries"):
        assert (await real.as_ann.get(f"/sessions/{made['session_id']}?{query}")).json()["event_stream"] == []
    assert (await real.as_ann.get(f"/sessions/{made['session_id']}/timeline")).json()["data"] == []


async def test_a_recording_that_is_gone_is_not_an_empty_one(real: Api, session: Session, home: Path) -> None:
    shutil.rmtree(home)
    for query in ("expand=event_stream", "event_stream=utf8", "extension=txt"):
        assert "no recording" in message(await real.as_ann.get(f"/sessions/{session.id}?{query}"), 404)
    assert (await real.as_ann.get(f"/sessions/{session.id}")).status_code == 200


async def test_who_sees_what(real: Api, session: Session) -> None:
    paths = ("?expand=event_stream", "?extension=txt", "/timeline", "/export")
    for path in paths:
        for client in (real.as_ann, real.as_auditor, real.as_admin):
            assert (await client.get(f"/sessions/{session.id}{path}")).status_code == 200
        message(await real.as_bob.get(f"/sessions/{session.id}{path}"), 404)
        message(await real.nobody.get(f"/sessions/{session.id}{path}"), 401)


async def test_the_timeline(real: Api, session: Session) -> None:
    async def get(query: str) -> dict[str, Any]:
        found: dict[str, Any] = (await real.as_ann.get(f"/sessions/{session.id}/timeline?{query}")).json()
        return found

    [first, second] = (await get("output=1000"))["data"]
    assert first == {
        "at": 1.0,
        "exchange": 1,
        "statement": "select note from pets where id = $1",
        "statement_size": 35,
        "prepared": False,
        "values": ["7"],
        "truncated": False,
        "duration": 1.5,
        "rows": 2,
        "tag": "SELECT 2",
        "error": "",
        "error_code": "",
        "refusal": None,
        "note": "",
        "masked": [],
        "output": OUTPUT.decode(),
        "errors": "",
    }
    assert second["refusal"] == {"rule": "no drops", "message": "blocked by no drops"}
    assert second["duration"] is None
    page = await get("limit=1")
    assert [one["exchange"] for one in page["data"]] == [1]
    rest = await get(f"limit=1&cursor={page['next_cursor']}")
    assert ([one["exchange"] for one in rest["data"]], rest["next_cursor"]) == ([2], None)
    assert [one["exchange"] for one in (await get("from=5"))["data"]] == [2]
    assert (await get("output=4"))["data"][0]["output_truncated"] is True


async def exported(api: Api, session: Session, form: str) -> httpx.Response:
    return await api.as_ann.get(f"/sessions/{session.id}/export?format={form}")


async def test_asciicasts(real: Api, home: Path) -> None:
    """By the documents of the format; the first size is the header's, a split character comes whole."""
    euro = "€".encode()
    events: list[tuple[int, Event]] = [
        (100, Resized(100, 30)),
        (1_500_000, ClientOutput(printed(b"\x1b[31m$ " + euro[:1]))),
        (2_000_000, ClientOutput(printed(euro[1:]))),
        (2_500_000, Operation(1, "ls")),
        (3_000_000, Resized(120, 40)),
        (4_000_000, ClientOutput(printed(b"\xff\n", m.STDERR))),
        (4_000_000, Note("session ended", {"reason": "killed"})),
    ]
    session = await recorded_session(real, home, events, protocol=TERMINAL)
    answer = await exported(real, session, "asciicast")
    assert answer.headers["content-type"] == "application/x-asciicast"
    assert answer.headers["content-disposition"].endswith('.cast"')
    header, *lines = [json.loads(line) for line in answer.text.splitlines()]
    started = int(session.start_date.timestamp())
    assert header == {
        "version": 2, "width": 100, "height": 30, "timestamp": started, "duration": 0.0, "title": f"shop ({session.id})"
    }  # fmt: skip
    note = "[note] session ended (reason: killed)\n"
    assert lines == [
        [1.5, "o", "\x1b[31m$ "],
        [2.0, "o", "€"],
        [2.5, "m", "ls"],
        [3.0, "r", "120x40"],
        [4.0, "o", "\ufffd\n"],
        [4.0, "o", note],
    ]
    header, *lines = [json.loads(line) for line in (await exported(real, session, "asciicast-v3")).text.splitlines()]
    assert header == {
        "version": 3, "term": {"cols": 100, "rows": 30}, "timestamp": started, "title": f"shop ({session.id})"
    }  # fmt: skip
    assert [at for at, _, _ in lines] == [1.5, 0.5, 0.5, 0.5, 1.0, 0.0, 0]
    assert lines[-1] == [0, "x", "3"]


async def test_a_database_makes_no_asciicast(real: Api, session: Session) -> None:
    assert "timeline" in message(await exported(real, session, "asciicast"), 422)


async def test_database_has_no_http_archive(real: Api, session: Session) -> None:
    assert "only sessions of HTTP have an archive" in message(await exported(real, session, "har"), 422)
    lines = (await exported(real, session, "timeline")).text.splitlines()
    assert [json.loads(line)["exchange"] for line in lines] == [1, 2]


HOSTILE = [
    "\x1b]52;c;cm0gLXJmIH4=\x07\x1b[6n\x1bP$qm\x1b\\",
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "\udcff\udcfe",  # bytes that are no UTF-8
    "a\r\nSet-Cookie: x=1\n\tb",
    '",";\'--',
    "\u202egnp.exe",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_content_is_whole_and_harmless_everywhere(real: Api, home: Path, text: str) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    events: list[tuple[int, Event]] = [
        (1_000, Operation(1, text, values=(raw,))),
        (2_000, ClientOutput(rows(text))),
        (2_000, Completed(1, "SELECT 1", 1)),
    ]
    session = await recorded_session(real, home, events)
    url = f"/sessions/{session.id}"
    queries = (await real.as_ann.get(f"{url}?event_stream=raw-queries")).json()
    assert decoded(queries)[0][2] == raw
    shown = (await real.as_ann.get(f"{url}?expand=event_stream")).json()
    cell = (
        raw.replace(b"\\", b"\\\\").replace(b"\t", b"\\t").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    )  # as COPY's text format
    assert decoded(shown)[1][2] == b"note\n" + cell + b"\nSELECT 1\n"
    assert (await real.as_ann.get(f"{url}?extension=txt")).content == b"note\n" + cell + b"\nSELECT 1\n"
    table = await real.as_ann.get(f"{url}?extension=csv")
    no_formula = b"'" * cell.startswith(b"=") + cell
    assert list(csv.reader(io.StringIO(table.content.decode("utf-8", "surrogateescape"))))[1] == [
        no_formula.decode("utf-8", "surrogateescape")
    ]
    one = (await real.as_ann.get(f"{url}?extension=json")).json()[0]
    assert (base64.b64decode(one["base64"]) if "base64" in one else one["stream"].encode()) == (
        b"note\n" + cell + b"\nSELECT 1\n"
    )
    for answer in (table, await real.as_ann.get(f"{url}/timeline"), await real.as_ann.get(f"{url}/export")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "text/html" not in answer.headers["content-type"]
    exchange = (await real.as_ann.get(f"{url}/timeline")).json()["data"][0]
    assert exchange["statement"] == raw.decode(errors="backslashreplace")


async def test_a_statement_of_20_mb_is_whole_and_cut_where_it_is_shown(real: Api, home: Path) -> None:
    text = "select '" + "x" * 20_000_000 + "'"
    session = await recorded_session(real, home, [(1_000, Operation(1, text)), (2_000, Completed(1, "SELECT 1", 1))])
    url = f"/sessions/{session.id}"
    [exchange] = (await real.as_ann.get(f"{url}/timeline")).json()["data"]
    assert (len(exchange["statement"]), exchange["truncated"]) == (64 * 1024, True)
    assert exchange["statement_size"] == len(text)
    message(await real.as_ann.get(f"{url}?expand=event_stream"), 422)
    page = await real.as_ann.get(f"{url}?expand=event_stream&limit=1")
    assert decoded(page.json())[0][2] == text.encode()
    assert (await real.as_ann.get(f"{url}?extension=txt&events=i")).content == text.encode()


@pytest.mark.parametrize("name", ["a b", 'x"; filename="evil.exe', "../../etc", "ä€", "-rf"])
async def test_names_of_files_are_harmless(real: Api, home: Path, name: str, session: Session) -> None:
    given = RecordingFileRequest(extension="txt").name(replace(session, connection=name))
    assert given.encode().isascii()
    assert not set(given) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")
    assert not given.startswith((".", "-"))

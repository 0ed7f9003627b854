"""Signed links to files of sessions, and what may be tried with them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import zstandard
from tests.api.conftest import Api, message
from tests.support.spooled import recorded_session
from tests.support.world import logged_in

from postern.api.sessions import downloads
from postern.domain.features import Feature
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session
from postern.errors import Unauthenticated
from postern.interception.events import Event, Operation
from postern.services.identity.logins.tokens import AUDIENCE
from postern.services.recordings.download_links import EACH

EVENTS: list[tuple[int, Event]] = [(at, Operation(at, f"select {at}")) for at in range(1, 2_000)]
WHOLE = "".join(f"select {at}" for at in range(1, 2_000)).encode()
FORM = "extension=txt&events=i"


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    downloads._lengths.clear()


@pytest.fixture
async def session(real: Api, home: Path) -> Session:
    return await recorded_session(real, home, EVENTS)


async def link(client: httpx.AsyncClient, session: Session, query: str = FORM) -> str:
    """Below /api."""
    answer = await client.post(f"/sessions/{session.id}/download?{query}")
    assert answer.status_code == 200, answer.text
    assert list(answer.json()) == ["download_url", "expire_at"]
    url = urlsplit(answer.json()["download_url"])
    assert url.path == f"/api/sessions/{session.id}/download"
    return f"{url.path.removeprefix('/api')}?{url.query}"


def token_of(path: str) -> str:
    return parse_qs(urlsplit(path).query)["token"][0]


async def test_a_link_is_good_without_a_token_and_more_than_once(real: Api, session: Session) -> None:
    path = await link(real.as_ann, session)
    for _ in range(2):
        answer = await real.nobody.get(path)
        assert (answer.status_code, answer.content) == (200, WHOLE)
    assert answer.headers["content-disposition"] == (f'attachment; filename="shop-{session.id}-20260102-030405.txt"')
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("query", "begins"),
    [
        ("extension=csv&events=i", b"select 1"),
        ("extension=json&events=i", b"[{"),
        ("extension=txt&events=i&event-time=1", b"2026-01-02T03:04:05.000Z "),
        ("extension=txt&events=i&new_line=1", b"select 1\n"),
        ("format=timeline", b'{"at": 0.001'),
        ("extension=txt&events=i&from=1.5", b"select 1500"),
    ],
)
async def test_forms(real: Api, session: Session, query: str, begins: bytes) -> None:
    answer = await real.nobody.get(await link(real.as_ann, session, query))
    assert answer.content.startswith(begins)


async def test_it_expires(real: Api, session: Session) -> None:
    path = await link(real.as_ann, session)
    real.world.clock.forward(minutes=4, seconds=59)
    assert (await real.nobody.get(path)).status_code == 200
    real.world.clock.forward(seconds=2)
    assert "expired" in message(await real.nobody.get(path), 401)


async def test_it_is_for_one_session(real: Api, session: Session, home: Path) -> None:
    other = await recorded_session(real, home, EVENTS)
    path = await link(real.as_ann, session)
    message(await real.nobody.get(path.replace(str(session.id), str(other.id))), 401)
    message(await real.nobody.get(path.replace(str(session.id), "x")), 401)
    assert (await real.nobody.get(path)).status_code == 200


def altered(token: str, **claims: Any) -> str:
    head, body, signature = token.split(".")
    given = json.loads(base64.urlsafe_b64decode(body + "=="))
    changed = base64.urlsafe_b64encode(json.dumps(given | claims).encode()).decode().rstrip("=")
    return f"{head}.{changed}.{signature}"


async def test_nothing_of_it_can_be_changed(real: Api, session: Session, home: Path) -> None:
    """Other form, other person, longer life, no signature; and parameters beside the token change nothing."""
    path = await link(real.as_ann, session)
    token = token_of(path)
    given = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    head = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    wrong = [
        altered(token, form=given["form"] | {"extension": "csv"}),
        altered(token, sub=str(real.users["admin"].id)),
        altered(token, exp=given["exp"] + 10_000),
        f"{head}.{token.split('.')[1]}.",
        token[:-4] + "AAAA",
        "",
        "x" * 4000,
        "ä.b.c",
        "..",
    ]
    for one in wrong:
        answer = await real.nobody.get(f"/sessions/{session.id}/download", params={"token": one})
        message(answer, 401)
    assert (
        await real.nobody.get(f"{path}&extension=csv&events=o&format=timeline")
    ).content == WHOLE  # no guess harmed it


async def test_a_link_is_no_token_and_a_token_no_link(real: Api, session: Session) -> None:
    """Attack 47: one kind of token where another is asked for."""
    token = token_of(await link(real.as_ann, session))
    message(await real.nobody.get("/sessions", headers={"Authorization": f"Bearer {token}"}), 401)
    own = real.as_ann.headers["Authorization"].removeprefix("Bearer ")
    message(await real.nobody.get(f"/sessions/{session.id}/download", params={"token": own}), 401)
    with pytest.raises(ValueError, match="use `issue`"):
        await real.services.tokens.sign(AUDIENCE, {}, real.world.clock())


async def test_logging_out_ends_it(real: Api, session: Session) -> None:
    opened = await logged_in(real.services, "ann@example.com", Secret("a long enough password"))
    async with httpx.AsyncClient(
        transport=real.as_ann._transport,
        base_url="http://localhost/api",
        headers={"Authorization": f"Bearer {opened.token.reveal()}"},
    ) as client:
        path = await link(client, session)
        assert (await real.nobody.get(path)).status_code == 200
        assert (await client.post("/logout")).status_code == 204
    assert "login has ended" in message(await real.nobody.get(path), 401)


async def test_attack_link_is_not_good_from_an_address_that_its_user_cannot_use(real: Api, session: Session) -> None:
    of_ann, of_auditor = await link(real.as_ann, session), await link(real.as_auditor, session)
    rule = {"name": "office", "allowed_networks": ["192.0.2.0/24"], "groups": ["dba"]}
    assert (await real.as_admin.post("/network-rules", json=rule)).status_code == 201
    assert "network rule 'office'" in message(await real.nobody.get(of_ann), 403)
    assert (await real.nobody.get(of_auditor)).status_code == 200


async def test_losing_the_right_ends_it(real: Api, session: Session) -> None:
    of_auditor, of_ann = await link(real.as_auditor, session), await link(real.as_ann, session)
    await real.as_admin.put("/users/auditor@example.com", json={"groups": []})
    message(await real.nobody.get(of_auditor), 404)
    assert (await real.nobody.get(of_ann)).status_code == 200
    await real.as_admin.put(f"/feature-flags/{Feature.SESSION_DOWNLOAD}", json={"enabled": False})
    message(await real.nobody.get(of_ann), 403)
    message(await real.as_ann.post(f"/sessions/{session.id}/download?{FORM}"), 403)
    await real.as_admin.put(f"/feature-flags/{Feature.SESSION_DOWNLOAD}", json={"enabled": True})
    await real.as_admin.put("/users/ann@example.com", json={"status": "inactive"})
    message(await real.nobody.get(of_ann), 401)


async def test_a_key_that_is_revoked_ends_its_links(real: Api, session: Session) -> None:
    made = (await real.as_admin.post("/api-keys", json={"name": "ci", "groups": ["auditor"]})).json()
    headers = {"Authorization": f"Bearer {made['key']}"}
    answer = await real.nobody.post(f"/sessions/{session.id}/download?{FORM}", headers=headers)
    path = urlsplit(answer.json()["download_url"])
    url = f"{path.path.removeprefix('/api')}?{path.query}"
    assert (await real.nobody.get(url)).content == WHOLE
    assert (await real.as_admin.delete("/api-keys/ci")).status_code == 204
    message(await real.nobody.get(url), 401)


async def test_keys_that_are_turned_over_end_it_and_other_processes_honour_it(real: Api, session: Session) -> None:
    token = Secret(token_of(await link(real.as_ann, session)))
    other = real.world.services().download_links  # as another process has them, over the same store
    assert (await other.open(token, str(session.id), address="::1")).session.id == session.id
    await real.services.tokens.rotate()
    assert (await other.open(token, str(session.id), address="::1")).session.id == session.id
    real.world.clock.forward(seconds=2)
    await real.services.tokens.rotate(revoke=True)
    with pytest.raises(Unauthenticated):
        await other.open(token, str(session.id), address="::1")


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=0-9", 0, 9),
        ("bytes=100-", 100, len(WHOLE) - 1),
        ("bytes=-10", len(WHOLE) - 10, len(WHOLE) - 1),
        ("bytes=5-999999999999999999", 5, len(WHOLE) - 1),
        ("bytes=-999999999999999999", 0, len(WHOLE) - 1),
        (f"bytes={len(WHOLE) - 1}-", len(WHOLE) - 1, len(WHOLE) - 1),
    ],
)
async def test_a_part(real: Api, session: Session, asked: str, first: int, last: int) -> None:
    path = await link(real.as_ann, session)
    answer = await real.nobody.get(path, headers={"Range": asked})
    assert answer.status_code == 206
    assert answer.content == WHOLE[first : last + 1]
    assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(WHOLE)}"
    assert answer.headers["content-length"] == str(last - first + 1)


@pytest.mark.parametrize("asked", [f"bytes={len(WHOLE)}-", "bytes=999999999999999999-", "bytes=-0"])
async def test_a_part_behind_the_end(real: Api, session: Session, asked: str) -> None:
    answer = await real.nobody.get(await link(real.as_ann, session), headers={"Range": asked})
    assert "begins after" in message(answer, 416)
    assert answer.headers["content-range"] == f"bytes */{len(WHOLE)}"


@pytest.mark.parametrize(
    "asked",
    ["bytes=9-5", "bytes=a-b", "bytes=", "bytes=-", "lines=1-2", "bytes=0-1,3-4", "bytes=--1",
     "bytes=1" + "0" * 5000, "bytes=²-3"],
)  # fmt: skip
async def test_an_absurd_range_is_no_range(real: Api, session: Session, asked: str) -> None:
    answer = await real.nobody.get(await link(real.as_ann, session), headers={b"Range": asked.encode()})
    assert (answer.status_code, answer.content) == (200, WHOLE)


async def test_a_download_is_gone_on_with_only_in_the_same_file(real: Api, session: Session) -> None:
    path = await link(real.as_ann, session)
    whole = await real.nobody.get(path)
    tag = whole.headers["etag"]
    rest = await real.nobody.get(path, headers={"Range": "bytes=50-", "If-Range": tag})
    assert (rest.status_code, rest.content) == (206, WHOLE[50:])
    for condition in ('"another"', f"W/{tag}", "Sat, 21 Nov 2026 10:00:00 GMT"):
        answer = await real.nobody.get(path, headers={"Range": "bytes=50-", "If-Range": condition})
        assert (answer.status_code, answer.content) == (200, WHOLE)
    other = await real.nobody.get(await link(real.as_ann, session, f"{FORM}&new_line=1"))
    assert other.headers["etag"] != tag
    again = await real.nobody.get(await link(real.as_ann, session))
    assert again.headers["etag"] == tag


async def test_a_running_session_has_no_ranges(real: Api, home: Path) -> None:
    running = await recorded_session(real, home, EVENTS, done=False)
    path = await link(real.as_ann, running)
    answer = await real.nobody.get(path, headers={"Range": "bytes=0-9"})
    assert (answer.status_code, answer.content) == (200, WHOLE)
    assert answer.headers["accept-ranges"] == "none"
    assert "etag" not in answer.headers


async def test_head_tells_and_takes_nothing(real: Api, session: Session) -> None:
    path = await link(real.as_ann, session)
    answer = await real.nobody.head(path)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["etag"] == (await real.nobody.get(path)).headers["etag"]
    assert (await real.nobody.head(path)).headers["content-length"] == str(len(WHOLE))
    assert (await real.nobody.head(f"/sessions/{session.id}/download?token=x")).status_code == 401
    assert (await real.nobody.get(path)).content == WHOLE


async def test_downloads_at_once_are_bounded(real: Api, session: Session) -> None:
    path = await link(real.as_ann, session)
    places = real.services.download_links.places
    held = [places.acquire(real.users["ann"].id) for _ in range(EACH)]
    for one in held:
        one.__enter__()
    said = message(await real.nobody.get(path), 429)
    assert "you already download sessions in 4 requests" in said
    assert (await real.nobody.get(await link(real.as_admin, session))).status_code == 200
    for one in held:
        one.__exit__(None, None, None)
    assert (await real.nobody.get(path)).content == WHOLE
    assert not places._taken


async def test_making_a_link_is_in_the_audit_log_and_the_link_is_not(real: Api, session: Session) -> None:
    token = token_of(await link(real.as_ann, session))
    entries = (await real.as_admin.get("/audit/logs")).text
    assert f"/api/sessions/{session.id}/download" in entries
    assert token not in entries


async def test_damage_between_two_downloads_is_told(real: Api, session: Session, home: Path) -> None:
    """A length that is remembered is good no more; that of a damaged file is not remembered."""
    path = await link(real.as_ann, session)
    for _ in range(2):
        assert (await real.nobody.get(path)).content == WHOLE
    [file] = (home / "sealed").glob("*/*/*.rec.zst")
    good = file.read_bytes()
    plain = bytearray(zstandard.ZstdDecompressor().decompressobj().decompress(good))
    plain[len(plain) // 2] ^= 1
    file.write_bytes(plain)
    for _ in range(2):
        damaged = await real.nobody.get(path)
    assert damaged.content.endswith(b"the checksum of a record is wrong\n")  # although only input was asked for
    assert "content-length" not in damaged.headers
    part = await real.nobody.get(path, headers={"Range": "bytes=-8"})
    assert (part.status_code, part.content) == (206, damaged.content[-8:])
    file.write_bytes(good)
    again = await real.nobody.get(path)
    assert again.content == WHOLE

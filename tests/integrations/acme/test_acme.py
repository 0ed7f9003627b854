"""What needs no ACME server: requests that are refused, answers to challenges, and when attempts are made."""

from __future__ import annotations

import asyncio
import sys
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.postgres import free_port

from postern.api.application import create_app
from postern.api.info import StaticServerInfo
from postern.errors import Misconfigured, Unavailable
from postern.integrations.acme import acme_renewal
from postern.integrations.acme.acme_challenges import PATH, answering, challenge_listener, read_answer
from postern.integrations.acme.acme_order import AcmeRequest, check_acme, make_account_key, order
from postern.integrations.acme.acme_renewal import AcmeState, read_state, renewal_time, write_state
from postern.services.bundle import Services
from postern.store.signals import LocalSignals

GOOD = AcmeRequest("https://acme.example/dir", ("gateway.example.com",), "ops@example.com", True)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"directory": "http://acme.example/dir"}, "must be an https address"),
        ({"accepts_terms": False}, "POSTERN_ACME_ACCEPT_TERMS is not set: read the terms"),
        ({"email": "ops"}, "'ops' is not an address"),
        ({"names": ()}, "are empty; set one of them"),
        ({"names": ("gateway",)}, "'gateway' is not a full host name"),
        ({"names": ("*.example.com",)}, "is not a full host name"),
        ({"names": ("192.0.2.1",)}, "is not a full host name"),
        ({"names": ("a..example.com",)}, "is not a full host name"),
        ({"names": ("-a.example.com",)}, "is not a full host name"),
    ],
)
def test_what_cannot_be_ordered(changes: dict[str, object], why: str) -> None:
    check_acme(GOOD)
    check_acme(replace(GOOD, directory="http://127.0.0.1:14000/dir", email=""))
    with pytest.raises(Misconfigured, match=why):
        check_acme(replace(GOOD, **changes))  # type: ignore[arg-type]


def test_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "acme", None)
    with pytest.raises(Misconfigured, match="needs the library acme; run: pip install acme"):
        order(GOOD, make_account_key(), lambda _: nullcontext())


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def test_listener_answers_challenges_only_while_they_are_open(tmp_path: Path) -> None:
    port, folder = free_port(), tmp_path / "answers"
    async with challenge_listener(folder, "127.0.0.1", port):
        url = f"http://127.0.0.1:{port}{PATH}"
        async with httpx.AsyncClient() as client:
            with answering(folder, {"token-1": "token-1.thumbprint"}):
                assert (folder / "token-1").stat().st_mode & 0o777 == 0o600
                assert (await client.get(f"{url}token-1")).text == "token-1.thumbprint"
                assert (await client.get(f"{url}token-2")).status_code == 404
            assert (await client.get(f"{url}token-1")).status_code == 404
        (tmp_path / "secret").write_text("secret")
        with answering(folder, {"token-1": "answer"}):
            for line in (
                f"GET {PATH}../secret HTTP/1.1",
                f"GET {PATH}..%2fsecret HTTP/1.1",
                f"GET {tmp_path}/secret HTTP/1.1",
                f"POST {PATH}token-1 HTTP/1.1",
                "nonsense",
            ):
                answer = await ask(port, line.encode() + b"\r\n\r\n")
                assert answer.startswith(b"HTTP/1.1 404 ")
                assert b"secret" not in answer
    with pytest.raises(OSError):
        await ask(port, b"")


async def test_port_that_is_taken_is_named(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(Unavailable, match=f"port {port} of 127.0.0.1 cannot be used .*POSTERN_ACME_HTTP_PORT"):
        async with challenge_listener(tmp_path, "127.0.0.1", port):
            pass
    server.close()


def test_attack_a_token_that_names_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    for token in ("../token", "a/b", "", "a" * 129, "a\n"):
        with pytest.raises(Unavailable, match="is not allowed"), answering(tmp_path / "answers", {token: "x"}):
            pass
        assert read_answer(tmp_path, token) is None
    assert not (tmp_path / "token").exists()


async def test_api_answers_challenges_outside_of_its_own_paths() -> None:
    services = cast("Services", SimpleNamespace(signals=LocalSignals()))
    app = create_app(services, StaticServerInfo("", "", "", ""), acme_answer={"token": "answer"}.get)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        found = await client.get(f"{PATH}token")
        assert (found.status_code, found.text) == (200, "answer")
        assert found.headers["content-type"].startswith("text/plain")
        assert (await client.get(f"{PATH}other")).status_code == 404


@given(days=st.integers(1, 400), der=st.binary(max_size=20))
def test_certificate_is_renewed_at_two_thirds_of_its_lifetime_and_a_little_later(days: int, der: bytes) -> None:
    life = timedelta(days=days)
    due = renewal_time(NOW, NOW + life, der)
    assert NOW + life * 0.66 < due < NOW + life * 0.72
    assert due == renewal_time(NOW, NOW + life, der)


def test_delay_after_failures_doubles_up_to_half_a_day() -> None:
    state = AcmeState()
    for longest in (5, 10, 20, 40, 80, 160, 320, 640, 720, 720):
        state = state.after_failure("why", NOW)
        assert timedelta(minutes=longest) * 0.75 <= state.next_at - NOW <= timedelta(minutes=longest)
    assert AcmeState(10_000).after_failure("why", NOW).next_at <= NOW + acme_renewal.LONGEST_DELAY


def test_state_is_stored_and_a_damaged_one_is_none(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    state = AcmeState().after_failure("why\n", NOW)
    write_state(file, state)
    assert read_state(file) == state
    for text in ("", "[]", "{}", '{"failures": 1, "problem": "", "next_at": "2026-01-01"}', '{"failures": null}'):
        file.write_text(text)
        assert read_state(file) == AcmeState()

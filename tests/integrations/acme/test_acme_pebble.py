"""Certificates of a real ACME server."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from tests.support.pebble import Pebble, running_pebble

from postern.errors import Unavailable
from postern.integrations.acme.acme_challenges import answering, challenge_listener
from postern.integrations.acme.acme_order import AcmeRequest, IssuedCertificate, make_account_key, order
from postern.integrations.acme.acme_renewal import read_state
from postern.settings import Settings
from postern.store.signals import LocalSignals
from postern.wiring import paths, tls
from postern.wiring.certificate_renewal import CertificateRenewal

pytestmark = pytest.mark.slow  # builds the server from Go, once

NAMES = ("gateway.example.test", "other.example.test")


@pytest.fixture(scope="module")
def pebble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pebble]:
    with running_pebble(tmp_path_factory.mktemp("pebble")) as running:
        yield running


def request(pebble: Pebble, **changed: object) -> AcmeRequest:
    wanted = AcmeRequest(pebble.directory, NAMES, "ops@example.com", True, str(pebble.authority))
    return replace(wanted, **changed)  # type: ignore[arg-type]


async def ordered(pebble: Pebble, folder: Path, key: bytes, *, port: int | None = None) -> IssuedCertificate:
    async with challenge_listener(folder, "127.0.0.1", pebble.http_port if port is None else port):
        return await asyncio.to_thread(order, request(pebble), key, functools.partial(answering, folder))


async def test_certificate_is_issued_for_all_names_and_the_account_is_used_again(
    pebble: Pebble, tmp_path: Path
) -> None:
    key = make_account_key()
    first = await ordered(pebble, tmp_path / "answers", key)
    second = await ordered(pebble, tmp_path / "answers", key)
    for issued in (first, second):
        leaf, *chain = x509.load_pem_x509_certificates(issued.chain)
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert set(names.get_values_for_type(x509.DNSName)) == set(NAMES)
        assert chain
    assert first.key != second.key
    assert list((tmp_path / "answers").iterdir()) == []


async def test_servers_reason_is_in_the_message_if_it_cannot_reach_the_answers(pebble: Pebble, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"could not check the names: .*example\.test: .*connection refused"):
        await ordered(pebble, tmp_path, make_account_key(), port=0)


async def test_server_that_is_not_trusted_or_away(pebble: Pebble, tmp_path: Path) -> None:
    for changed, why in (
        (request(pebble, authority=""), "certificate verify failed|CERTIFICATE"),
        (request(pebble, directory="https://127.0.0.1:1/dir"), "refused"),
    ):
        with pytest.raises(Unavailable, match=f"the ACME server https://.* could not be used: .*({why})"):
            await asyncio.to_thread(order, changed, make_account_key(), functools.partial(answering, tmp_path))


def renewing(pebble: Pebble, home: Path, now: datetime, **changed: object) -> tuple[CertificateRenewal, Settings]:
    settings = Settings(
        home=home,
        acme_directory=pebble.directory,
        acme_ca=str(pebble.authority),
        acme_accept_terms=True,
        acme_domains=",".join(NAMES),
        acme_http_port=pebble.http_port,
    )
    settings = replace(settings, **changed)  # type: ignore[arg-type]
    return CertificateRenewal(settings, LocalSignals(), lambda: now), settings


async def test_job_orders_at_once_then_at_two_thirds_of_the_lifetime(pebble: Pebble, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    renewal, settings = renewing(pebble, tmp_path, now)
    before = tls.served_certificate(settings)  # Postern's own, until there is another one
    assert await renewal.once()
    assert before.check()
    first = before.current
    assert set(first.names) == set(NAMES)
    for file in ("account.key", "server.pem"):
        assert (paths.acme_folder(settings) / file).stat().st_mode & 0o777 == 0o600
    assert not await renewal.once()
    life = first.not_after - first.not_before
    early, _ = renewing(pebble, tmp_path, first.not_before + life * 0.66)
    assert not await early.once()
    due, _ = renewing(pebble, tmp_path, first.not_before + life * 0.73)
    assert await due.once()
    assert before.check()
    assert before.current.der != first.der


async def test_other_names_are_ordered_without_waiting_for_the_renewal(pebble: Pebble, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    renewal, _ = renewing(pebble, tmp_path, now)
    assert await renewal.once()
    soon, _ = renewing(pebble, tmp_path, now + timedelta(minutes=30), acme_domains="new.example.test")
    assert not await soon.once()
    changed, settings = renewing(pebble, tmp_path, now + timedelta(minutes=61), acme_domains="new.example.test")
    assert await changed.once()
    assert tls.material(settings).load().names == ("new.example.test",)


async def test_failure_keeps_the_old_certificate_and_the_next_attempt_waits(
    pebble: Pebble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.now(UTC)
    renewal, settings = renewing(pebble, tmp_path, now)
    assert await renewal.once()
    old = tls.material(settings).load()
    later = old.not_before + (old.not_after - old.not_before) * 0.8
    failing, _ = renewing(pebble, tmp_path, later, acme_http_port=0)
    assert not await failing.once()
    assert tls.material(settings).load().der == old.der
    state = read_state(paths.acme_state(tmp_path))
    assert (state.failures, "could not check the names" in state.problem) == (1, True)
    assert timedelta(minutes=3) < state.next_at - later <= timedelta(minutes=5)
    assert "could not check the names" in caplog.text
    again, _ = renewing(pebble, tmp_path, later)
    assert not await again.once()  # it waits, although it would succeed
    again._wake({})  # an administrator asks for it
    assert await again.once()
    assert read_state(paths.acme_state(tmp_path)).problem == ""

"""The job that renews the certificate: Postern's own, and that of an ACME server that is not there."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import issue

from postern.errors import Misconfigured, Unavailable
from postern.integrations.acme.acme_order import IssuedCertificate
from postern.integrations.acme.acme_renewal import read_state
from postern.settings import Settings
from postern.store.ports.common_ports import Topic
from postern.store.signals import LocalSignals
from postern.transport import certificates
from postern.wiring import certificate_renewal, paths, tls
from postern.wiring.certificate_renewal import CertificateRenewal

NAME = "gateway.example.com"


def acme_settings(home: Path, **more: Any) -> Settings:
    return Settings(
        home=home,
        public_host=NAME,
        acme_directory="https://acme.example/dir",
        acme_accept_terms=True,
        acme_http_port=0,
        **more,
    )


def renewal_of(settings: Settings, now: datetime | None = None) -> tuple[CertificateRenewal, list[str]]:
    signals, heard = LocalSignals(), list[str]()
    signals.subscribe(Topic.CERTIFICATES_CHANGED, lambda _: heard.append("changed"))
    return CertificateRenewal(settings, signals, lambda: now or datetime.now(UTC)), heard


def make_own(settings: Settings, *, age: timedelta) -> None:
    names = certificates.server_names(settings.address, socket.gethostname(), settings.host, settings.public_host)
    certificates.ensure(paths.certificates_folder(settings), names, now=datetime.now(UTC) - age)


async def test_own_certificate_is_renewed_once_and_its_authority_stays(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    make_own(settings, age=timedelta(days=370))
    served, authority = tls.own_files(settings).load(), (tmp_path / "tls" / "ca.crt").read_bytes()
    renewal, heard = renewal_of(settings)
    assert await renewal.once()
    assert not await renewal.once()
    assert heard == ["changed"]
    assert tls.own_files(settings).load().not_after > served.not_after
    assert (tmp_path / "tls" / "ca.crt").read_bytes() == authority


async def test_authority_that_is_about_to_expire_is_replaced_at_a_start_only(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    make_own(settings, age=timedelta(days=3640))
    authority = (tmp_path / "tls" / "ca.crt").read_bytes()
    renewal, _ = renewal_of(settings)
    await renewal.once()  # the server certificate, up to the end of its authority
    last = tls.own_files(settings).load()
    assert not await renewal.once()
    assert tls.own_files(settings).load().der == last.der
    assert (tmp_path / "tls" / "ca.crt").read_bytes() == authority
    tls.ensure_own(settings)
    assert (tmp_path / "tls" / "ca.crt").read_bytes() != authority


async def test_your_own_files_are_left_alone(tmp_path: Path) -> None:
    made = issue(NAME)
    (tmp_path / "c").write_bytes(made.certificate)
    (tmp_path / "k").write_bytes(made.key)
    settings = Settings(home=tmp_path / "home", tls_cert=str(tmp_path / "c"), tls_key=str(tmp_path / "k"))
    renewal, heard = renewal_of(settings)
    assert not await renewal.once()
    assert heard == []
    assert not (tmp_path / "home").exists()


class AcmeServer:
    """In place of the order: it issues, or fails with `problem`."""

    def __init__(self) -> None:
        self.orders = 0
        self.problem = ""
        self.chain: bytes | None = None

    def order(self, _request: Any, key: bytes, answering: Any) -> IssuedCertificate:
        self.orders += 1
        assert key.startswith(b"-----BEGIN PRIVATE KEY-----")
        challenges: Mapping[str, str] = {"token": "answer"}
        context: AbstractContextManager[None] = answering(challenges)
        with context:
            if self.problem:
                raise Unavailable(self.problem)
        made = issue(NAME)
        return IssuedCertificate(self.chain or made.certificate, made.key)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> AcmeServer:
    made = AcmeServer()
    monkeypatch.setattr(certificate_renewal, "order", made.order)
    return made


async def test_certificate_that_does_not_fit_its_key_is_not_used(server: AcmeServer, tmp_path: Path) -> None:
    settings = acme_settings(tmp_path)
    renewal, _ = renewal_of(settings)
    assert await renewal.once()
    old = tls.material(settings).load()
    for chain in (b"nonsense", issue(NAME).certificate):
        server.chain = chain
        later, heard = renewal_of(settings, old.not_before + (old.not_after - old.not_before) * 0.8)
        later._wake({})
        assert not await later.once()
        assert heard == []
        assert tls.material(settings).load().der == old.der
        assert "cannot be used" in read_state(paths.acme_state(tmp_path)).problem


async def test_failed_orders_wait_longer_each_time_over_restarts(server: AcmeServer, tmp_path: Path) -> None:
    server.problem = "no"
    settings, now = acme_settings(tmp_path), datetime.now(UTC)
    for orders in (1, 2, 3):
        renewal, _ = renewal_of(settings, now)
        assert not await renewal.once()
        assert not await renewal.once()
        assert server.orders == orders
        state = read_state(paths.acme_state(tmp_path))
        assert (state.failures, state.problem) == (orders, "no")
        now = state.next_at
    assert tls.authority(settings) is None
    assert tls.current_files(settings).certificate == paths.certificates_folder(settings) / "server.crt"


def test_what_contradicts_itself_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="are both set"):
        renewal_of(acme_settings(tmp_path, tls_cert="c", tls_key="k"))
    with pytest.raises(Misconfigured, match="read the terms"):
        renewal_of(Settings(home=tmp_path, public_host=NAME, acme_directory="https://acme.example/dir"))

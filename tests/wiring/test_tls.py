"""Which authority the keys of agents name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.certificates import issue

from postern.errors import Misconfigured
from postern.settings import Settings
from postern.transport import certificates
from postern.wiring import tls


def test_our_own_authority_is_named(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    authority = tls.authority(settings)
    assert authority is not None
    found = tls.authority_der(settings)
    assert found is not None
    assert found[:1] == b"\x30"  # a sequence, and no PEM
    assert tls.authority_der(settings) == found


def test_of_a_file_with_several_the_root_is_named_and_of_public_ones_none(tmp_path: Path) -> None:
    company = issue("gate.example.com")
    files = {name: tmp_path / f"{name}.pem" for name in ("certificate", "key", "ca")}
    files["certificate"].write_bytes(company.certificate)
    files["key"].write_bytes(company.key)
    files["ca"].write_text(company.certificate.decode() + company.authority)
    public = Settings(home=tmp_path, tls_cert=str(files["certificate"]), tls_key=str(files["key"]))
    assert tls.authority_der(replace(public, tls_ca=str(files["ca"]))) == company.der
    assert tls.authority_der(public) is None


@pytest.mark.parametrize(
    ("domain", "is_valid"), [("apps.example.com", True), ("apps.example.com:443", True), ("localhost", False)]
)
def test_own_certificate_is_valid_for_hosts_of_applications(tmp_path: Path, domain: str, is_valid: bool) -> None:
    settings = Settings(home=tmp_path, httpproxy_domain=domain)
    host = tls.app_domain(settings).host_of("wiki")
    assert tls.is_certified(settings, host) is is_valid
    assert tls.is_certified(settings, "localhost")
    assert tls.apps_problem(settings) == ""


def test_own_certificate_is_renewed_when_the_domain_changes_and_the_authority_stays(tmp_path: Path) -> None:
    before = tls.material(Settings(home=tmp_path))
    authority = before.authority.read_bytes()
    settings = Settings(home=tmp_path, httpproxy_domain="apps.example.com")
    assert tls.is_certified(settings, "wiki.apps.example.com")
    assert before.authority.read_bytes() == authority


def test_certificate_of_their_own_is_served_at_hosts_of_applications(tmp_path: Path) -> None:
    apps = certificates.ensure(tmp_path / "apps", ["*.apps.example.com"])
    settings = Settings(
        home=tmp_path,
        httpproxy_domain="apps.example.com",
        httpproxy_tls_cert=str(apps.certificate),
        httpproxy_tls_key=str(apps.key),
    )
    assert not tls.is_certified(settings, "wiki.apps.example.com")  # another one is
    assert tls.apps_problem(settings) == ""
    assert tls.served_certificate(settings).web_context().sni_callback is not None
    other = replace(settings, httpproxy_domain="apps.example.net")
    assert tls.apps_problem(other) == f"{apps.certificate} is not valid for *.apps.example.net"
    with pytest.raises(Misconfigured, match="must be set together"):
        tls.material(replace(settings, httpproxy_tls_key=""))

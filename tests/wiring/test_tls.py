"""Which authority the keys of agents name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.certificates import issue

from postern.settings import Settings
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

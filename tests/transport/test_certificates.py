from __future__ import annotations

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from postern.domain.identity.validity import refused_for_its_dates
from postern.errors import Misconfigured
from postern.transport import certificates
from postern.transport.certificates import TlsFiles, ensure, server_names

NAMES = ("localhost", "127.0.0.1", "::1", "db.example.com")


def shown_name(material: TlsFiles, trusted: Path, host: str) -> str:
    """Shakes hands over a socket pair as a verifying client would; answers the TLS version."""
    ours, theirs = socket.socketpair()
    server = material.server_context()

    def serve() -> None:
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except ssl.SSLError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ssl.create_default_context(cafile=trusted).wrap_socket(ours, server_hostname=host) as stream:
            return stream.version() or ""
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize("host", NAMES)
def test_client_that_trusts_the_authority_accepts_every_server_name(tmp_path: Path, host: str) -> None:
    material = ensure(tmp_path / "tls", NAMES)
    assert shown_name(material, material.authority, host) == "TLSv1.3"


def test_client_rejects_another_server_name_and_another_authority(tmp_path: Path) -> None:
    material, other = ensure(tmp_path / "a", NAMES), ensure(tmp_path / "b", NAMES)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shown_name(material, material.authority, "evil.example.com")
    with pytest.raises(ssl.SSLCertVerificationError):
        shown_name(material, other.authority, "localhost")


@pytest.mark.parametrize(("behind", "good"), [(timedelta(hours=23), True), (timedelta(hours=25), False)])
def test_new_certificate_is_valid_for_clocks_up_to_a_day_slow(tmp_path: Path, behind: timedelta, good: bool) -> None:
    """To such a clock, the certificate was made in the future."""
    material = ensure(tmp_path, NAMES, now=datetime.now(UTC) + behind)
    if good:
        assert shown_name(material, material.authority, "localhost") == "TLSv1.3"
        return
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        shown_name(material, material.authority, "localhost")
    assert "not valid yet by this machine's clock" in refused_for_its_dates(str(refused.value), datetime.now(UTC))


def test_error_names_the_clock_only_for_an_expired_certificate(tmp_path: Path) -> None:
    material = ensure(tmp_path, NAMES, now=datetime.now(UTC) - certificates.SERVER_LIFE)
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        shown_name(material, material.authority, "localhost")
    assert "has expired by this machine's clock" in refused_for_its_dates(str(refused.value), datetime.now(UTC))
    other = ensure(tmp_path / "other", NAMES)
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        shown_name(ensure(tmp_path / "b", NAMES), other.authority, "localhost")
    assert refused_for_its_dates(str(refused.value), datetime.now(UTC)) == ""


def test_server_certificate_is_valid_for_at_most_398_days(tmp_path: Path) -> None:
    shown = x509.load_pem_x509_certificate(ensure(tmp_path, NAMES).certificate.read_bytes())
    assert shown.not_valid_after_utc - shown.not_valid_before_utc <= timedelta(days=398)


def test_second_start_changes_no_certificate_file(tmp_path: Path) -> None:
    ensure(tmp_path, NAMES)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    ensure(tmp_path, reversed(NAMES))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert {path.name for path in before} == {"ca.crt", "ca.key", "server.crt", "server.key"}


def test_private_keys_are_readable_by_the_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    ensure(folder, NAMES)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.glob("*.key")} == {0o600}


@pytest.mark.parametrize(
    "spoil",
    ["names", "expiry", "missing key", "broken certificate", "foreign key"],
)
def test_server_certificate_is_renewed_and_the_authority_stays(tmp_path: Path, spoil: str) -> None:
    now = datetime.now(UTC)
    nearly_over = certificates.SERVER_LIFE - certificates.RENEW_BEFORE
    material = ensure(tmp_path / "tls", NAMES, now=now - nearly_over if spoil == "expiry" else now)
    authority, certificate = material.authority.read_bytes(), material.certificate.read_bytes()
    names: tuple[str, ...] = NAMES
    if spoil == "names":
        names = (*NAMES, "more.example.com")
    elif spoil == "missing key":
        material.key.unlink()
    elif spoil == "broken certificate":
        material.certificate.write_text("not a certificate")
    elif spoil == "foreign key":
        material.key.write_bytes(ensure(tmp_path / "other", NAMES).key.read_bytes())
    ensure(tmp_path / "tls", names, now=now)
    assert material.authority.read_bytes() == authority
    assert material.certificate.read_bytes() != certificate
    assert shown_name(material, material.authority, names[-1])


def test_new_authority_issues_a_new_server_certificate(tmp_path: Path) -> None:
    material = ensure(tmp_path, NAMES)
    before = material.certificate.read_bytes()
    (tmp_path / "ca.key").unlink()
    ensure(tmp_path, NAMES)
    assert material.certificate.read_bytes() != before
    assert shown_name(material, material.authority, "localhost")


def test_server_certificate_never_outlives_its_authority(tmp_path: Path) -> None:
    start = datetime.now(UTC)
    ensure(tmp_path, NAMES, now=start)
    late = start + certificates.AUTHORITY_LIFE - timedelta(days=60)
    material = ensure(tmp_path, NAMES, now=late)
    server = x509.load_pem_x509_certificate(material.certificate.read_bytes())
    authority = x509.load_pem_x509_certificate(material.authority.read_bytes())
    assert server.not_valid_after_utc == authority.not_valid_after_utc


def test_server_names_omit_wildcards_and_duplicates() -> None:
    assert server_names("0.0.0.0", "box", "localhost", "") == ("localhost", "127.0.0.1", "::1", "box")


def test_invalid_public_host_name_is_misconfigured(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="POSTERN_PUBLIC_HOST"):
        ensure(tmp_path, ["a" * 64 + ".example.com"])


def test_certificate_and_key_that_do_not_match_are_misconfigured(tmp_path: Path) -> None:
    one, two = ensure(tmp_path / "1", NAMES), ensure(tmp_path / "2", NAMES)
    with pytest.raises(Misconfigured, match="cannot be used"):
        TlsFiles(one.authority, one.certificate, two.key).server_context()

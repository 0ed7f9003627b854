"""What a certificate of OpenSSH proves, and what it does not: the attacks of SSH's peers among it."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncssh
import pytest
from asyncssh.public_key import CERT_TYPE_USER, SSHOpenSSHCertificate
from hypothesis import given
from hypothesis import strategies as st
from tests.support import ssh_ca
from tests.support.public_keys import string
from tests.support.ssh_ca import Authority

from postern.domain.identity.ssh_certificate import MAX_PRINCIPALS, fault, read_certificate
from postern.domain.identity.ssh_key import public_key
from postern.domain.targets.connection import Extra
from postern.errors import Invalid

NAMES = ("ann@example.com", "subject of ann")
HERE = "192.0.2.7"
PRINCIPALS, CRITICAL, EXTENSIONS, AUTHORITY, SIGNATURE = 6, 9, 10, 12, 13  # places in `ssh_ca.fields`


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def judged(authority: Authority, data: bytes, *, address: str = HERE, now: datetime | None = None) -> str | None:
    certificate = read_certificate(data)
    return fault(certificate, public_key(authority.line), NAMES, address, now or datetime.now(UTC))


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
@pytest.mark.parametrize("signer", ["ed25519", "ecdsa", "rsa"])
def test_what_openssh_signs_is_read(kind: str, signer: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path, signer)
    data = authority.sign("-n", "ann@example.com,ops", "-z", "7", "-V", "20260101000000Z:20260102000000Z", kind=kind)
    found = read_certificate(data)
    assert (found.serial, found.kind, found.key_id) == (7, 1, "ann's laptop")
    assert found.principals == ("ann@example.com", "ops")
    assert found.authority == public_key(authority.line)
    assert found.key == public_key((tmp_path / "user.pub").read_text())
    assert found.ends_at == datetime(2026, 1, 2, tzinfo=UTC)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert fault(found, public_key(authority.line), NAMES, HERE, noon) is None
    for moment, says in ((noon - timedelta(days=1), "not valid now"), (noon + timedelta(hours=12), "not valid now")):
        assert says in str(fault(found, public_key(authority.line), NAMES, HERE, moment))


def test_attack_addresses_that_take_long_to_read() -> None:
    """Whoever signs a certificate for themselves may have it read before it is known that nobody trusts them."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    networks = [f"10.{number >> 8}.{number & 255}.0/24" for number in range(1_000)]
    for sources, fits in ((networks[:100], True), (networks, False)):
        data = key.generate_user_certificate(key, "x", principals=["ann"], source_address=sources).public_data
        if fits:
            assert read_certificate(data).principals == ("ann",)
        else:
            with pytest.raises(Invalid, match="source-address"):
                read_certificate(data)


def test_it_is_what_asyncssh_hands_on_and_judged_where_that_is_lenient(authority: Authority) -> None:
    """The library checks both signatures; one without principals is everybody's to it."""
    data = authority.sign("-n", "ann@example.com")
    theirs = asyncssh.read_certificate(str(authority.folder / "user-cert.pub"))
    assert theirs.public_data == data
    nobodys = authority.sign()
    theirs = asyncssh.read_certificate(str(authority.folder / "user-cert.pub"))
    assert isinstance(theirs, SSHOpenSSHCertificate)
    theirs.validate(CERT_TYPE_USER, "ann@example.com")
    assert judged(authority, nobodys) == "it does not name this user"


def test_another_authority_proves_nothing(authority: Authority, tmp_path: Path) -> None:
    data = Authority(tmp_path).sign("-n", "ann@example.com")
    assert judged(authority, data) == "it was signed by a different authority"


def test_a_hosts_certificate_lets_no_user_in(authority: Authority) -> None:
    assert judged(authority, authority.sign("-h", "-n", "ann@example.com")) == "it is a host's certificate"


@pytest.mark.parametrize(
    "principals",
    [
        [],
        ["bob@example.com"],
        ["ANN@example.com"],
        ["ann"],
        ["ann@example.com "],
        ["ann@example.com,bob@example.com"],  # one name with a comma in it, CVE-2026-35414
        ["bob@example.com,ann@example.com"],
        ["*"],
        [""],
        ["ann@example.com\0"],
    ],
    ids=repr,
)
def test_only_the_very_name_is_meant(authority: Authority, principals: list[str]) -> None:
    data = authority.sign("-n", "x")
    listed = b"".join(string(one.encode()) for one in principals)
    assert judged(authority, ssh_ca.changed(data, PRINCIPALS, listed)) == "it does not name this user"


def test_one_of_several_names_is_enough(authority: Authority) -> None:
    assert judged(authority, authority.sign("-n", "ops,subject of ann")) is None
    assert judged(authority, authority.sign("-n", "ann@example.com")) is None


def test_a_certificate_in_the_place_of_the_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    """CVE-2025-49825: whatever the nested one says, nobody has checked it."""
    nested = Authority(tmp_path).sign("-n", "ann@example.com")
    data = ssh_ca.changed(authority.sign("-n", "ann@example.com"), AUTHORITY, nested)
    with pytest.raises(Invalid, match="by a plain key"):
        read_certificate(data)


@pytest.mark.parametrize(
    ("given", "address", "fits"),
    [
        ("192.0.2.0/24", HERE, True),
        ("192.0.2.7", HERE, True),
        ("198.51.100.0/24,192.0.2.7/32", HERE, True),
        ("192.0.2.0/24", "::ffff:192.0.2.7", True),
        ("2001:db8::/32", "2001:db8::1", True),
        ("198.51.100.0/24", HERE, False),
        ("192.0.2.0/24", "2001:db8::1", False),
        ("::ffff:192.0.2.0/120", HERE, False),
        ("192.0.2.0/24", "somewhere", False),
        ("192.0.2.0/24,nowhere", HERE, False),
        ("192.0.2.7/24", HERE, False),
        ("", HERE, False),
    ],
)
def test_the_addresses_that_it_names_are_held_to(authority: Authority, given: str, address: str, fits: bool) -> None:
    data = authority.sign("-n", "ann@example.com")
    option = string(b"source-address") + string(string(given.encode()))
    found = judged(authority, ssh_ca.changed(data, CRITICAL, option), address=address)
    assert (found is None) is fits, found
    if not fits:
        assert "source-address" in str(found)


def test_openssh_writes_addresses_as_they_are_read_here(authority: Authority) -> None:
    data = authority.sign("-n", "ann@example.com", "-O", "source-address=192.0.2.0/24")
    assert judged(authority, data) is None
    assert "source-address" in str(judged(authority, data, address="198.51.100.1"))


def test_what_is_critical_and_not_held_to_refuses(authority: Authority) -> None:
    command = authority.sign("-n", "ann@example.com", "-O", "force-command=/bin/true")
    assert "force-command" in str(judged(authority, command))
    for name in (b"verify-required", b"x@example.com", b"Source-Address"):
        data = ssh_ca.changed(authority.sign("-n", "ann@example.com"), CRITICAL, string(name) + string(b""))
        assert judged(authority, data) == "it has a critical option that is not supported"


def test_it_says_what_may_be_forwarded(authority: Authority) -> None:
    full = read_certificate(authority.sign("-n", "ann@example.com"))
    assert full.terminal
    assert all(full.allows(extra) for extra in Extra)
    bare = read_certificate(authority.sign("-n", "ann@example.com", "-O", "clear"))
    assert not bare.terminal
    assert [extra for extra in Extra if bare.allows(extra)] == [Extra.FILE_TRANSFER]
    ports = read_certificate(authority.sign("-n", "x", "-O", "clear", "-O", "permit-port-forwarding"))
    assert [extra for extra in Extra if not ports.allows(extra)] == [Extra.FORWARD_AGENT]


def test_one_that_never_ends_has_no_end(authority: Authority) -> None:
    found = read_certificate(authority.sign("-n", "ann@example.com", "-V", "always:forever"))
    assert found.ends_at is None
    assert judged(authority, authority.sign("-n", "ann@example.com", "-V", "always:forever")) is None


@pytest.mark.parametrize(
    ("part", "content", "says"),
    [
        (CRITICAL, string(b"b") + string(b"") + string(b"a") + string(b""), "cannot be read"),
        (CRITICAL, string(b"a") + string(b"") + string(b"a") + string(b""), "cannot be read"),
        (EXTENSIONS, string(b"a"), "cannot be read"),
        (PRINCIPALS, b"\0\0\0\xffann", "cannot be read"),
        (PRINCIPALS, string(b"\xff\xfe"), "cannot be read"),
        (PRINCIPALS, string(b"x") * (MAX_PRINCIPALS + 1), "at most 32 principals"),
        (AUTHORITY, string(b"ssh-dss") + string(b"x"), "by a plain key"),
        (AUTHORITY, string(b"ssh-ed25519") + string(b"x" * 31), "cannot be read"),
        (SIGNATURE, string(b"ssh-rsa") + string(b"x"), "too weak or does not match its authority"),
        (0, b"ssh-dss-cert-v01@openssh.com", "its type is not supported"),
        (0, b"ssh-ed25519", "its type is not supported"),
    ],
)
def test_what_is_not_exactly_a_certificate_is_refused(
    authority: Authority, part: int, content: bytes, says: str
) -> None:
    data = authority.sign("-n", "ann@example.com")
    with pytest.raises(Invalid, match=says):
        read_certificate(ssh_ca.changed(data, part, content))


def test_an_rsa_authority_signs_by_sha_2_alone(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "rsa")
    with pytest.raises(Invalid, match="too weak"):
        read_certificate(authority.sign("-n", "ann@example.com", "-t", "ssh-rsa"))
    for algorithm in ("rsa-sha2-256", "rsa-sha2-512"):
        assert judged(authority, authority.sign("-n", "ann@example.com", "-t", algorithm)) is None


SIGNED = base64.b64decode("AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29tAAAAIA==")  # the beginning of one


@given(st.binary(max_size=300), st.booleans())
def test_nothing_else_is_raised_for_whatever_comes(data: bytes, begins: bool) -> None:
    with pytest.raises(Invalid):
        read_certificate(SIGNED + data if begins else data)


def test_every_cut_and_every_addition_is_refused(authority: Authority) -> None:
    data = authority.sign("-n", "ann@example.com")
    for end in range(len(data)):
        with pytest.raises(Invalid):
            read_certificate(data[:end])
    for more in (b"\0", string(b""), data):
        with pytest.raises(Invalid):
            read_certificate(data + more)

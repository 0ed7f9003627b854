"""OpenSSH user certificates (its file PROTOCOL.certkeys): strict parsing, and what one proves.

The caller has checked two signatures: that of the certificate, by the key that it names as its authority, and the
client's, by the certified key. Everything else is decided here:

    signed by a plain key       a certificate instead of a signing key is rejected, whatever it says
    of a user                   never a host's
    valid now                   from `valid_after` on, before `valid_before`
    names its user              one principal is the user's e-mail address or subject, compared exactly; a comma is
                                a character like others, and one without principals is for no user
    no unknown options          `source-address` is enforced; `force-command` and all other critical ones are rejected
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from uuid import UUID

from postern.domain.identity.ssh_key import ALGORITHMS, RSA_SIGNATURES, PublicKey, certified_key, key_of_wire
from postern.domain.identity.ssh_wire import SshReader, strings
from postern.domain.targets.connection import Extra
from postern.errors import Invalid

MAX_SIZE = 65_536  # bytes; OpenSSH's own are below 4,000
MAX_PRINCIPALS = 32  # each is looked up; OpenSSH takes 256
MAX_SOURCES = 4_000  # bytes of source-address; libraries take long to read it, before the user is known
USER = 1  # a host's has 2
_BEHIND = "-cert-v01@openssh.com"
_PLAIN: Mapping[str, str] = {algorithm.removesuffix("@openssh.com") + _BEHIND: algorithm for algorithm in ALGORITHMS}
_SOURCES, _COMMAND = "source-address", "force-command"
_FOREVER = datetime.max.replace(tzinfo=UTC).timestamp()
_GRANTED: Mapping[Extra, str | None] = {
    Extra.FORWARD_LOCAL: "permit-port-forwarding",
    Extra.FORWARD_REMOTE: "permit-port-forwarding",
    Extra.FORWARD_AGENT: "permit-agent-forwarding",
    Extra.FILE_TRANSFER: None,  # no certificate says anything of it
}


@dataclass(frozen=True, slots=True)
class SshAuthority:
    """A key whose signature makes the holder of a certificate a user of this organisation."""

    id: UUID
    org_id: UUID
    name: str
    key: PublicKey
    created_at: datetime
    updated_at: datetime | None = None
    version: int = 1
    managed_by: str | None = None


@dataclass(frozen=True, slots=True)
class SshCertificate:
    """`key` is the certified key, `authority` the signer's; `valid_after` and `valid_before` are seconds since 1970."""

    key: PublicKey
    serial: int
    kind: int
    key_id: str
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    critical: Mapping[str, bytes]
    extensions: Mapping[str, bytes]
    authority: PublicKey

    @property
    def ends_at(self) -> datetime | None:
        """When it expires; None for one that never does."""
        return None if self.valid_before >= _FOREVER else datetime.fromtimestamp(self.valid_before, UTC)

    @property
    def terminal(self) -> bool:
        return "permit-pty" in self.extensions

    def allows(self, extra: Extra) -> bool:
        """Whether the certificate allows it; the connection has its own switch."""
        extension = _GRANTED[extra]
        return extension is None or extension in self.extensions


def read_certificate(data: bytes) -> SshCertificate:
    """Parse a certificate in wire format. Raises Invalid unless it is exactly one, of a plain authority."""
    if len(data) > MAX_SIZE:
        raise Invalid(f"certificate: at most {MAX_SIZE} bytes")
    try:
        return _read(data)
    except ValueError:  # also a text that is no UTF-8
        raise Invalid("certificate: cannot be read") from None


def fault(
    certificate: SshCertificate, authority: PublicKey, names: Collection[str], address: str, now: datetime
) -> str | None:
    """Return why it does not prove that a client at `address` is one of `names`; None where it does.

    The signature, and that the client has its key, are checked elsewhere.
    """
    if certificate.authority != authority:
        return "it was signed by a different authority"
    if certificate.kind != USER:
        return "it is a host's certificate"
    if not certificate.valid_after <= now.timestamp() < certificate.valid_before:
        return "it is not valid now"
    if not set(certificate.principals) & set(names):
        return "it does not name this user"
    for option in certificate.critical:
        if option == _COMMAND:
            return "it is restricted to one command (force-command), which is not supported"
        if option != _SOURCES:
            return "it has a critical option that is not supported"
    if _SOURCES in certificate.critical and not _comes_from(certificate.critical[_SOURCES], address):
        return "it is not valid for your address (source-address)"
    return None


def _read(data: bytes) -> SshCertificate:
    """Parse the fields. Raises ValueError, Invalid."""
    reader = SshReader(data)
    plain = _PLAIN.get(reader.string().decode())
    if plain is None:
        raise Invalid("certificate: its type is not supported")
    reader.string()  # the nonce
    certificate = SshCertificate(
        key=certified_key(reader, plain, data),
        serial=reader.uint64(),
        kind=reader.uint32(),
        key_id=reader.string().decode(),
        principals=tuple(name.decode() for name in strings(reader.string())),
        valid_after=reader.uint64(),
        valid_before=reader.uint64(),
        critical=_options(reader.string()),
        extensions=_options(reader.string()),
        authority=_authority(reader),
    )
    signature = SshReader(reader.string())
    if not reader.is_done:
        raise ValueError("data after the certificate")
    algorithm = certificate.authority.algorithm
    if signature.string().decode() not in (RSA_SIGNATURES if algorithm == "ssh-rsa" else (algorithm,)):
        raise Invalid("certificate: its signature algorithm is too weak or does not match its authority; sign it again")
    if len(certificate.principals) > MAX_PRINCIPALS:
        raise Invalid(f"certificate: at most {MAX_PRINCIPALS} principals")
    if len(certificate.critical.get(_SOURCES, b"")) > MAX_SOURCES:
        raise Invalid(f"certificate: at most {MAX_SOURCES} bytes of {_SOURCES}")
    return certificate


def _authority(reader: SshReader) -> PublicKey:
    """Return the signing key. Raises ValueError, and Invalid also for a certificate instead of a key."""
    reader.string()  # reserved
    blob = reader.string()
    algorithm = SshReader(blob).string().decode()
    if algorithm not in ALGORITHMS:
        raise Invalid("certificate: it must be signed by a plain key of a supported type")
    return key_of_wire(algorithm, blob, "certificate: its authority")


def _options(data: bytes) -> Mapping[str, bytes]:
    """Return the options: in order, each once, as required. Raises ValueError."""
    parts = strings(data)
    names = [name.decode() for name in parts[::2]]
    if len(parts) % 2 or names != sorted(set(names)):
        raise ValueError("options")
    return dict(zip(names, parts[1::2], strict=True))


def _comes_from(sources: bytes, address: str) -> bool:
    """Return whether one of the networks has the address; anything that is not a network matches nothing."""
    try:
        (listed,) = strings(sources)
        networks = [ip_network(text) for text in listed.decode("ascii").split(",")]
        here = _plain(ip_address(address))
    except ValueError:
        return False
    if any(
        isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None for network in networks
    ):
        return False
    return any(here in network for network in networks)


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return an IPv4 address that came over an IPv6 socket as IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address

"""How native clients log in with a new credential: their lines, and what identifies the gateway to them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import Field

from postern.api.info import NativePort, ServerAddresses
from postern.api.schemas.common import Answer, AttributeAnswer
from postern.domain.identity.credential import Issued
from postern.domain.identity.ssh_key import public_key
from postern.domain.targets.connection import SSH
from postern.protocols.clients import NativeCredential, PasswordSource
from postern.protocols.registry import PROTOCOLS

# The file name in the lines, relative to where the client runs. Its content is `ca_certificate`.
CA_FILE: Final = "postern-ca.crt"


class ClientLineAnswer(AttributeAnswer):
    """How one client logs in."""

    name: str = Field(
        description="The name of the program, or of the form: uri, jdbc, sqlalchemy, django, env (shell variables), or "
        "that of a file"
    )
    text: str = Field(description="A shell command, or the form's text; quoted as its reader needs it")
    password: PasswordSource = Field(
        description="How the client gets the password: `prompt` (it asks), `environment` (from the variable), "
        "`setting` (a program gives it to its driver separately), `line` (it is in the text), `certificate` (there is "
        "none: the client uses the files of `client_certificate`)"
    )
    variable: str = Field(description="Environment variable from which the client reads the password; empty: none")


class GatewayIdentityAnswer(Answer):
    """What identifies the gateway to clients: a certificate for databases, a host key for SSH."""

    ca_certificate: str | None = Field(
        description="PEM. Null: an authority that systems trust issued the certificate, or the client uses SSH"
    )
    ca_file: str | None = Field(description="File of the lines that must contain `ca_certificate`; null: none")
    ssh_known_hosts: str | None = Field(description="For SSH: the line for ~/.ssh/known_hosts")
    ssh_host_key_fingerprint: str | None = Field(
        description="For SSH: SHA256:…, as clients show it at the first connection"
    )


class ClientCertificateAnswer(Answer):
    """A client certificate with its private key, which is shown only once."""

    certificate: str = Field(description="PEM; valid as long as the credential")
    private_key: str = Field(description="PEM, not encrypted; the gateway does not store it")
    serial_number: str = Field(description="Hexadecimal; in the metadata of its sessions")
    certificate_file: str = Field(description="File of the lines that must contain `certificate`")
    key_file: str = Field(description="File of the lines that must contain `private_key`")

    @classmethod
    def from_issued(cls, issued: Issued) -> ClientCertificateAnswer | None:
        """Return the certificate of a new credential; None where clients log in by password."""
        if issued.certificate is None:
            return None
        certificate_file, key_file = certificate_files(issued.connection.name)
        return cls(
            certificate=issued.certificate.pem,
            private_key=issued.certificate.key.reveal(),
            serial_number=issued.certificate.serial,
            certificate_file=certificate_file,
            key_file=key_file,
        )


def certificate_files(connection: str) -> tuple[str, str]:
    """Return the file names in the lines for a certificate and its key, as CA_FILE."""
    return f"{connection}.crt", f"{connection}.key"


def client_lines(issued: Issued, info: ServerAddresses) -> list[ClientLineAnswer]:
    """Return how each client of the connection's protocol logs in; none if the protocol has no client."""
    connection = issued.connection
    find_client = PROTOCOLS[connection.subtype].client
    if find_client is None:
        return []
    client, address = find_client(), info.native[connection.subtype]
    files = [Path(name) for name in certificate_files(connection.name)] if issued.certificate else [None, None]
    credential = NativeCredential(
        issued.credential.username,
        issued.password,
        address.host,
        address.port,
        connection.default_database or client.default_database,
        Path(CA_FILE) if info.ca_certificate else None,
        certificate=files[0],
        key=files[1],
        web_url=(info.apps.url_of(connection) if info.apps else None) or "",
    )
    return [ClientLineAnswer.of(line) for line in client.lines(credential)]


def gateway_identity(subtype: str, info: ServerAddresses) -> GatewayIdentityAnswer:
    """Return what identifies the gateway to the clients of this protocol."""
    if subtype == SSH:
        key = info.ssh_host_key
        return GatewayIdentityAnswer(
            ca_certificate=None,
            ca_file=None,
            ssh_known_hosts=f"{_known_host(info.native[SSH])} {key}" if key else None,
            ssh_host_key_fingerprint=public_key(key).fingerprint if key else None,
        )
    return GatewayIdentityAnswer(
        ca_certificate=info.ca_certificate,
        ca_file=CA_FILE if info.ca_certificate else None,
        ssh_known_hosts=None,
        ssh_host_key_fingerprint=None,
    )


def _known_host(address: NativePort) -> str:
    return address.host if address.port == 22 else f"[{address.host}]:{address.port}"

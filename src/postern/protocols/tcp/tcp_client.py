"""Clients of TCP services that log in by a client certificate: command lines of common programs with TLS.

Each presents the certificate and verifies the gateway's. A program without TLS uses a local port of socat, or that of
`postern connect`.
"""

from __future__ import annotations

import shlex
from typing import Final

from postern.protocols.clients import CredentialForm, NativeClient, NativeCredential, PasswordSource

_LOCAL_PORT: Final = 10_000  # of socat; any free one


def openssl_line(credential: NativeCredential) -> str:
    """Return a command that passes on its standard input and output, for any service."""
    words = ["openssl", "s_client", "-quiet", "-connect", credential.netloc]
    words += ["-cert", str(credential.certificate), "-key", str(credential.key)]
    words += ["-CAfile", credential.authority_file, "-verify_return_error", *_verified_name(credential.host)]
    return shlex.join(words)


def _verified_name(host: str) -> list[str]:
    is_address = ":" in host or host.replace(".", "").isdigit()
    return ["-verify_ip" if is_address else "-verify_hostname", host]


def _redis_cli(credential: NativeCredential) -> str:
    words = ["redis-cli", "-h", credential.host, "-p", str(credential.port), "--tls"]
    words += ["--cert", str(credential.certificate), "--key", str(credential.key)]
    return shlex.join([*words, "--cacert", credential.authority_file])


def _curl(credential: NativeCredential) -> str:
    """Return a command for a web service."""
    words = ["curl", "--cert", str(credential.certificate), "--key", str(credential.key)]
    return shlex.join([*words, "--cacert", credential.authority_file, f"https://{credential.netloc}/"])


def _socat(credential: NativeCredential) -> str:
    """Return a command that opens a local port for clients that have no TLS, or that begin it later."""
    options = f"cert={credential.certificate},key={credential.key},cafile={credential.authority_file}"
    near = f"TCP-LISTEN:{_LOCAL_PORT},bind=127.0.0.1,reuseaddr,fork"
    return shlex.join(["socat", near, f"OPENSSL:{credential.netloc},{options}"])


CLIENT: Final = NativeClient(
    names=("openssl",),
    package="openssl",
    elsewhere="openssl",
    shows_waiting=False,
    line=openssl_line,
    by_certificate=True,
    forms={
        "redis-cli": CredentialForm(_redis_cli, PasswordSource.CERTIFICATE),
        "curl": CredentialForm(_curl, PasswordSource.CERTIFICATE),
        "socat": CredentialForm(_socat, PasswordSource.CERTIFICATE),
    },
    examples=("$(postern connect cache --native --format redis-cli) PING",),
)

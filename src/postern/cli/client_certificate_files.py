"""Files of a client certificate: the certificate, its private key and the gateway's CA, for native clients."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from postern.cli.login import profile
from postern.client.client_shapes import IssuedCredential
from postern.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class ClientCertificateFiles:
    """Where the files are. `authority` is None if the system's CAs are enough."""

    certificate: Path
    key: Path
    authority: Path | None


def default_folder(environ: Mapping[str, str]) -> Path:
    return profile.path(environ).with_name("certificates")


def write_certificate_files(issued: IssuedCredential, folder: Path) -> ClientCertificateFiles:
    """Write the files of a new credential, for their owner only. Those of an earlier credential are replaced. Raises
    Misconfigured."""
    certificate, identity = issued["client_certificate"], issued["gateway_identity"]
    try:
        folder = folder.absolute()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return ClientCertificateFiles(
            _write(folder / certificate["certificate_file"], certificate["certificate"]),
            _write(folder / certificate["key_file"], certificate["private_key"]),
            _write(folder / identity["ca_file"], identity["ca_certificate"]) if identity["ca_file"] else None,
        )
    except OSError as error:
        raise Misconfigured(f"the certificate could not be written to {folder}: {error.strerror}") from None


def _write(file: Path, text: str) -> Path:
    """Replace a file at once, so that a reader never finds a part. Raises OSError."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)  # left by a process that died; its mode cannot be trusted
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(text)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    return file

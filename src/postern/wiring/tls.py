"""Which certificate this gateway shows: yours, or the one it makes itself."""

from __future__ import annotations

import socket
from pathlib import Path

from postern.errors import Misconfigured
from postern.settings import Settings
from postern.transport import certificates
from postern.transport.certificates import Material
from postern.wiring import paths


def material(settings: Settings) -> Material:
    """Makes or renews our own where no other is configured. Raises Misconfigured."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise Misconfigured("POSTERN_TLS_CERT and POSTERN_TLS_KEY belong together; set both or none", field="tls_cert")
    if settings.tls_cert:
        # Its issuer is somebody else's: clients are given the chain itself to trust.
        return Material(Path(settings.tls_cert), Path(settings.tls_cert), Path(settings.tls_key))
    names = certificates.server_names(settings.address, socket.gethostname(), settings.host, settings.public_host)
    return certificates.ensure(paths.certificates_folder(settings), names)

"""Finding secrets that were planted, in whatever form they may have leaked."""

from __future__ import annotations

import base64
import io
import tempfile
from itertools import product
from pathlib import Path
from urllib.parse import quote

import zstandard
from tests.support.running import Gateway

_ZSTD = b"\x28\xb5\x2f\xfd"


def spellings(secret: str) -> list[bytes]:
    """As it is, in hexadecimal, as a part of a URL, and in base64 wherever it stands in a longer text."""
    clear = secret.encode()
    found = [clear, clear.hex().encode(), quote(secret).encode(), quote(secret, safe="").encode()]
    for before, encode in product(range(3), (base64.b64encode, base64.urlsafe_b64encode)):
        # Without the characters that its neighbours have a part in.
        found.append(encode(b"\0" * before + clear)[4 if before else 0 :].rstrip(b"=")[:-1])
    return found


def in_processes(what: str, but: set[int] | None = None) -> dict[str, bytes]:
    """`cmdline` or `environ` of all that may be read, by its path."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        if but is None or int(process.name) not in but:
            try:
                found[str(process / what)] = (process / what).read_bytes()
            except OSError:
                continue  # it has ended, or is another user's
    return found


def in_files(folder: Path) -> dict[str, bytes]:
    """Recordings are unpacked, but for those that are stored: they are encrypted."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue  # it has gone meanwhile
            if path.suffix == ".zst" and content.startswith(_ZSTD):
                content += zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content)).read()
            found[str(path)] = content
    return found


def in_export(gateway: Gateway) -> dict[str, bytes]:
    """In what is recorded of ended sessions."""
    with tempfile.TemporaryDirectory(prefix="postern-") as folder:
        export = Path(folder) / "export"
        done = gateway.run("recordings", "export", "-o", str(export))
        assert done.returncode == 0, done.stderr
        return in_files(export)

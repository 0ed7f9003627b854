"""The built files of the web application, in memory, and how each is answered.

File names below `assets/` contain a hash of their content, so browsers can keep them for ever. The page itself names
the current files: browsers ask for it each time, and it has a new nonce in each answer.
"""

from __future__ import annotations

import mimetypes
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from pathlib import Path

BUILT = Path(__file__).parent / "dist"
PAGE = "index.html"
HASHED = "assets/"
NONCE, ADDRESS, PLAIN = b"__CSP_NONCE__", b"__API_URL__", b"__PLAIN_PAGE__"  # what an answer fills into the page
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))  # the smaller one first
_FOREVER = "public, max-age=31536000, immutable"

# The one policy for scripts is for workers: the application checks that they are its own files.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; style-src-attr 'none'; font-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'; "
    "trusted-types postern-worker"
)
_PERMISSIONS = (
    "camera=(), microphone=(), geolocation=(), payment=(), usb=(), clipboard-read=(self), clipboard-write=(self), "
    "publickey-credentials-get=(self), publickey-credentials-create=(self)"
)
_ISOLATION = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"}


@dataclass(frozen=True, slots=True)
class WebFile:
    """A file, and its compressed forms by their content encoding."""

    media_type: str
    content: bytes
    etag: str
    compressed: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssetAnswer:
    content: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WebAssets:
    """All files, by their path below the folder with `/` between its parts."""

    page: bytes
    files: Mapping[str, WebFile]

    def answer_page(self, api_url: str, plain_page: str) -> AssetAnswer:
        """Return the page with a new nonce, which only libraries that add styles need: no script is inline. A page that
        was opened at a different address than `api_url` (127.0.0.1 instead of localhost) moves there: cookies, the
        check of origins and security keys are bound to it."""
        nonce = secrets.token_urlsafe(16)
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": _POLICY.format(nonce=nonce),
            "Permissions-Policy": _PERMISSIONS,
            "Cache-Control": "no-cache",
            **_ISOLATION,
        }
        page = self.page.replace(NONCE, nonce.encode()).replace(ADDRESS, escape(api_url).encode())
        page = page.replace(PLAIN, escape(plain_page).encode())  # the last one: it has parts of the request's path
        return AssetAnswer(page, headers)

    def answer_file(self, path: str, accept_encoding: str) -> AssetAnswer | None:
        """Return the smallest form of the file that the browser accepts; None if the file is unknown."""
        asset = self.files.get(path)
        if asset is None:
            return None
        accepted = _read_encodings(accept_encoding)
        headers = {
            "Content-Type": asset.media_type,
            "Cache-Control": _FOREVER if path.startswith(HASHED) else "no-cache",
            "ETag": asset.etag,
            "Vary": "Accept-Encoding",
            **_ISOLATION,
        }
        for encoding, content in asset.compressed.items():
            if encoding in accepted:
                return AssetAnswer(content, headers | {"Content-Encoding": encoding})
        return AssetAnswer(asset.content, headers)


def load_assets(folder: Path = BUILT) -> WebAssets | None:
    """Read the built application into memory; None if it has not been built."""
    page = folder / PAGE
    if not page.is_file():
        return None
    files = {
        path.relative_to(folder).as_posix(): _load(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != page and not path.name.startswith(".") and not _is_compressed(path)
    }
    return WebAssets(page.read_bytes(), files)


def _load(path: Path) -> WebFile:
    compressed = {
        encoding: beside.read_bytes()
        for encoding, suffix in _ENCODINGS
        if (beside := path.with_name(path.name + suffix)).is_file()
    }
    content = path.read_bytes()
    # Weak, since one tag is for all forms of the file.
    return WebFile(_media_type(path.name), content, f'W/"{sha256(content).hexdigest()[:32]}"', compressed)


def _is_compressed(path: Path) -> bool:
    return path.suffix in {suffix for _, suffix in _ENCODINGS} and path.with_suffix("").is_file()


def _media_type(name: str) -> str:
    """Return the type by the file's ending: machines have different tables, so the important ones are ours."""
    ending = name.rpartition(".")[2]
    if ending in _MEDIA_TYPES:
        return _MEDIA_TYPES[ending]
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


_MEDIA_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "woff2": "font/woff2",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
}


def _read_encodings(header: str) -> set[str]:
    """Return the content encodings that a browser accepts (RFC 9110 section 12.5.3)."""
    accepted = set()
    for item in header.lower().split(","):
        name, _, parameters = item.partition(";")
        weight = parameters.replace(" ", "").removeprefix("q=")
        if name.strip() and not (weight and weight.strip("0.") == ""):
            accepted.add(name.strip())
    return accepted

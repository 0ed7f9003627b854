"""Blob stores of the clouds, and compatible ones, by obstore (decision 0025)."""

from __future__ import annotations

import asyncio
import mmap
import re
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import ObjectStore, from_url

from postern.errors import Misconfigured, NotFound, Unavailable

CONNECT, WRITE, READ = 5.0, 120.0, 20.0  # seconds for a connection, a put and a read
_AT_ONCE = 4  # concurrent puts of segments
_MOST_SAID = 300  # characters of a vendor's error
_IN_MEMORY = 16 * 1024 * 1024  # bytes of a put; a larger one uses a file
_PLAIN = "allow_http"
# Options of a URL. Credentials are never in it; they come from the environment.
_OPTIONS = {
    "s3": {
        "region": "region",
        "endpoint": "endpoint",
        "virtual_hosted_style_request": "virtual_hosted_style_request",
        "server_side_encryption": "server_side_encryption",
        "sse_kms_key_id": "sse_kms_key_id",
        "allow_http": _PLAIN,
    },
    "gs": {},
    "az": {"account": "account_name", "endpoint": "endpoint", "allow_http": _PLAIN},
}
_NEXT = "see docs/how-to/keep-recordings-elsewhere.md"


class ObjectBlobs:
    """A blob store. `url` is `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`, followed by
    `?option=value`.

    Raises Misconfigured. Credentials are found as in the vendor's own programs; nothing is requested here yet.
    """

    def __init__(self, url: str, *, write: float = WRITE, read: float = READ) -> None:
        plain, config = _read_url(url)
        self.name = plain
        self._writes = _store(plain, config, write, retries=0)  # the caller retries puts
        self._deletes = _store(plain, config, read, retries=0)
        self._reads = _store(plain, config, read, retries=1)
        # Separate threads: puts must not wait for other blocking calls.
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="blobs")

    async def put(self, key: str, content: Iterable[bytes]) -> bool:
        try:
            # A conditional put is one request, which starts with its length.
            whole = await asyncio.get_running_loop().run_in_executor(self._threads, _whole, content)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Unavailable(
                f"a segment cannot be prepared for upload to {self.name}: {error.strerror or error}"
            ) from None
        try:
            await obstore.put_async(self._writes, key, whole, mode="create")
        except (AlreadyExistsError, PreconditionError):
            return False
        except (BaseError, OSError, ValueError) as error:
            raise self._unavailable(error) from None
        return True

    async def delete(self, key: str) -> None:
        try:
            await obstore.delete_async(self._deletes, key)
        except FileNotFoundError:
            return
        except (BaseError, OSError, ValueError, TypeError) as error:  # TypeError is raised for a key with `..` in it
            raise self._unavailable(error) from None

    def size(self, key: str) -> int:
        self._check(key)
        try:
            return int(obstore.head(self._reads, key)["size"])
        except FileNotFoundError:
            raise NotFound(f"there is no {key} in {self.name}") from None
        except (BaseError, OSError, ValueError) as error:
            raise self._unavailable(error) from None

    def read(self, key: str, start: int, length: int) -> bytes:
        self._check(key)
        try:
            return bytes(obstore.get_range(self._reads, key, start=start, length=length))
        except FileNotFoundError:
            raise NotFound(f"there is no {key} in {self.name}") from None
        except (BaseError, OSError, ValueError) as error:
            if start > 0 and start >= self.size(key):
                return b""  # stores report it as an error
            raise self._unavailable(error) from None

    def _check(self, key: str) -> None:
        """Check that the key can exist. Raises NotFound, because the library would report the whole store as
        unusable."""
        if key.startswith("/") or ".." in key.split("/"):
            raise NotFound(f"there is no {key} in {self.name}")

    def _unavailable(self, error: Exception) -> Unavailable:
        """Return the error without everything after a `?`, which may be a signature."""
        reason = re.sub(r"\?\S*", "?…", str(error).partition("\n")[0])[:_MOST_SAID]
        return Unavailable(f"the blob store {self.name} cannot be used: {reason}")


def _whole(content: Iterable[bytes]) -> bytes | mmap.mmap:
    """Return the content in memory if it is small; otherwise in an unnamed file, of which only the part that is being
    sent is in memory."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
        for piece in content:
            file.write(piece)
        size = file.tell()
        file.seek(0)
        if size <= _IN_MEMORY:
            return file.read()
        file.flush()
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)


def _read_url(url: str) -> tuple[str, dict[str, str]]:
    """Return (URL without options, configuration). Raises Misconfigured."""
    parts = urlsplit(url)
    options = _OPTIONS.get(parts.scheme)
    if options is None or not parts.hostname or parts.username is not None or parts.fragment:
        raise Misconfigured(
            "POSTERN_RECORDINGS_URL: must be file:///FOLDER, or s3://, gs:// or az:// with a bucket or container, "
            f"without credentials; {_NEXT}",
            field="recordings_url",
        )
    config = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in options:
            allowed = f"its options are {', '.join(options)}" if options else "it has no options"
            raise Misconfigured(
                f"POSTERN_RECORDINGS_URL: {parts.scheme}:// has no option {name!r}; {allowed}; "
                f"credentials come from the environment; {_NEXT}",
                field="recordings_url",
            )
        config[options[name]] = value
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/"), config


def _store(url: str, config: Mapping[str, str], timeout: float, *, retries: int) -> ObjectStore:
    client: dict[str, Any] = {
        "timeout": timedelta(seconds=timeout),
        "connect_timeout": timedelta(seconds=CONNECT),
    }
    if config.get(_PLAIN) == "true" or _is_plain_nearby(config.get("endpoint", "")):
        client["allow_http"] = True
    retry: Any = {"max_retries": retries, "retry_timeout": timedelta(seconds=timeout)}
    settings: Any = {name: value for name, value in config.items() if name != _PLAIN}
    try:
        return from_url(url, config=settings, client_options=client, retry_config=retry)  # type: ignore[call-overload, no-any-return]
    except (BaseError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise Misconfigured(f"POSTERN_RECORDINGS_URL: {reason}; {_NEXT}", field="recordings_url") from None


def _is_plain_nearby(endpoint: str) -> bool:
    """Return True for a local endpoint without TLS. Recordings leave this machine by TLS only, unless the URL says
    otherwise."""
    parts = urlsplit(endpoint)
    if parts.scheme != "http":
        return False
    host = parts.hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"

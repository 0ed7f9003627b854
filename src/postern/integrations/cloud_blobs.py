"""Blob stores of the clouds, and what speaks as they do, on obstore (decision 0025)."""

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

CONNECT, WRITE, READ = 5.0, 120.0, 20.0  # seconds that a connection, a put and a read may take
_AT_ONCE = 4  # segments that are put
_MOST_SAID = 300  # characters of a vendor's error
_IN_MEMORY = 16 * 1024 * 1024  # bytes of what is put; more is put from a file
_PLAIN = "allow_http"
# What a URL may say; who may use the store, it never says: that comes from the environment.
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
    """`url` is `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`, followed by `?option=value`.

    Raises Misconfigured. Credentials are looked for where the vendor's own programs look: nothing is asked here yet.
    """

    def __init__(self, url: str, *, write: float = WRITE, read: float = READ) -> None:
        plain, config = _read_url(url)
        self.name = plain
        self._writes = _store(plain, config, write, retries=0)  # who puts tries again by itself
        self._deletes = _store(plain, config, read, retries=0)
        self._reads = _store(plain, config, read, retries=1)
        # Of its own: what is put waits for no one else who blocks in the common ones.
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="blobs")

    async def put(self, key: str, content: Iterable[bytes]) -> bool:
        try:
            # A conditional put is one request, which says first how long it is.
            whole = await asyncio.get_running_loop().run_in_executor(self._threads, _whole, content)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Unavailable(f"a segment cannot be prepared for {self.name}: {error.strerror or error}") from None
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
        except (BaseError, OSError, ValueError, TypeError) as error:  # the last is said of a key with `..` in it
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
                return b""  # which stores call an error
            raise self._unavailable(error) from None

    def _check(self, key: str) -> None:
        """What no key of ours can be is not there. Raises NotFound: the library would call the whole store unusable."""
        if key.startswith("/") or ".." in key.split("/"):
            raise NotFound(f"{key} is not in {self.name}")

    def _unavailable(self, error: Exception) -> Unavailable:
        """Without what follows a `?`: a signature may."""
        said = re.sub(r"\?\S*", "?…", str(error).partition("\n")[0])[:_MOST_SAID]
        return Unavailable(f"the blob store {self.name} cannot be used: {said}")


def _whole(content: Iterable[bytes]) -> bytes | mmap.mmap:
    """In memory where it is small; else in a file without a name, of which only what is being sent is in memory."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as kept:
        for piece in content:
            kept.write(piece)
        size = kept.tell()
        kept.seek(0)
        if size <= _IN_MEMORY:
            return kept.read()
        kept.flush()
        return mmap.mmap(kept.fileno(), size, access=mmap.ACCESS_READ)


def _read_url(url: str) -> tuple[str, dict[str, str]]:
    """(URL without options, configuration). Raises Misconfigured."""
    parts = urlsplit(url)
    known = _OPTIONS.get(parts.scheme)
    if known is None or not parts.hostname or parts.username is not None or parts.fragment:
        raise Misconfigured(
            "POSTERN_RECORDINGS_URL: it must be file:///FOLDER, or s3://, gs:// or az:// with a bucket or container, "
            f"and hold no credentials; {_NEXT}",
            field="recordings_url",
        )
    config = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in known:
            allowed = f"{', '.join(known)} are possible" if known else "none is possible"
            raise Misconfigured(
                f"POSTERN_RECORDINGS_URL: {parts.scheme}:// has no option {name!r}: {allowed}; credentials come from "
                f"the environment; {_NEXT}",
                field="recordings_url",
            )
        config[known[name]] = value
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/"), config


def _store(url: str, config: Mapping[str, str], timeout: float, *, retries: int) -> ObjectStore:
    client: dict[str, Any] = {
        "timeout": timedelta(seconds=timeout),
        "connect_timeout": timedelta(seconds=CONNECT),
    }
    if config.get(_PLAIN) == "true" or _is_plain_nearby(config.get("endpoint", "")):
        client["allow_http"] = True
    retry: Any = {"max_retries": retries, "retry_timeout": timedelta(seconds=timeout)}
    given: Any = {name: value for name, value in config.items() if name != _PLAIN}
    try:
        return from_url(url, config=given, client_options=client, retry_config=retry)  # type: ignore[call-overload, no-any-return]
    except (BaseError, ValueError) as error:
        said = str(error).partition("\n")[0]
        raise Misconfigured(f"POSTERN_RECORDINGS_URL: {said}; {_NEXT}", field="recordings_url") from None


def _is_plain_nearby(endpoint: str) -> bool:
    """Recordings leave this machine by TLS only, unless the URL says otherwise."""
    parts = urlsplit(endpoint)
    if parts.scheme != "http":
        return False
    host = parts.hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"

"""Blob stores: S3 as mocked by moto, and stores that fail in every way."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from mmap import mmap
from pathlib import Path
from typing import Any

import obstore
import pytest
from tests.support.aws import BUCKET, ObjectStorage, object_storage
from tests.support.promises import within

from postern.errors import Misconfigured, NotFound, Unavailable
from postern.integrations import cloud_blobs as module
from postern.integrations.cloud_blobs import ObjectBlobs

URL = f"s3://{BUCKET}/kept/here"


@pytest.fixture(scope="module")
def storage() -> Iterator[ObjectStorage]:
    with object_storage() as running:
        yield running


@pytest.fixture
def blobs(storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch) -> ObjectBlobs:
    for name, value in storage.environment.items():
        monkeypatch.setenv(name, value)
    return ObjectBlobs(f"{URL}?allow_http=true")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "one.rec.zst"
    path.write_bytes(os.urandom(3_000_000))
    return path


def pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as source:
        while data := source.read(100_000):
            yield data


async def test_stored_blob_is_read_in_pieces(blobs: ObjectBlobs, storage: ObjectStorage, file: Path) -> None:
    content = await asyncio.to_thread(file.read_bytes)
    assert await blobs.put("a/b/1.rec.zst", pieces(file))
    assert storage.keys() == ["kept/here/a/b/1.rec.zst"]
    assert await asyncio.to_thread(blobs.size, "a/b/1.rec.zst") == len(content)
    read = blobs.read
    assert await asyncio.to_thread(read, "a/b/1.rec.zst", 0, 10) == content[:10]
    assert await asyncio.to_thread(read, "a/b/1.rec.zst", 1_999_999, 2_000_000) == content[1_999_999:]
    assert await asyncio.to_thread(read, "a/b/1.rec.zst", len(content), 10) == b""
    assert await asyncio.to_thread(read, "a/b/1.rec.zst", len(content) + 5, 10) == b""


async def test_large_blob_is_uploaded_from_a_file(
    blobs: ObjectBlobs, storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_IN_MEMORY", 100_000)
    content = os.urandom(1_000_003)
    taken: list[object] = []
    real = obstore.put_async

    async def put(store: Any, key: str, whole: Any, **more: Any) -> object:
        taken.append(type(whole))
        return await real(store, key, whole, **more)

    monkeypatch.setattr(obstore, "put_async", put)
    assert await blobs.put("large", (content[at : at + 65_552] for at in range(0, len(content), 65_552)))
    assert not await blobs.put("large", [b"other" * 100_000])
    assert await blobs.put("small", [content[:100_000]])
    assert taken == [mmap, mmap, bytes]
    assert await asyncio.to_thread(blobs.read, "large", 0, 2_000_000) == content


async def test_upload_without_space_for_a_temporary_file_is_unavailable(
    blobs: ObjectBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_given: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "_IN_MEMORY", 10)
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(Unavailable, match="cannot be prepared for upload to s3://recordings/kept/here: No space left"):
        await blobs.put("full", [b"x" * 100])


async def test_existing_blob_is_never_overwritten(
    blobs: ObjectBlobs, storage: ObjectStorage, file: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"other")
    assert await blobs.put("taken", pieces(file))
    assert not await blobs.put("taken", pieces(other))
    assert not await blobs.put("taken", pieces(file))
    assert await asyncio.to_thread(blobs.size, "taken") == 3_000_000


async def test_concurrent_uploads_of_a_blob_store_one(blobs: ObjectBlobs, file: Path) -> None:
    answers = await asyncio.gather(*(blobs.put("raced", pieces(file)) for _ in range(8)), return_exceptions=True)
    assert sum(answer is True for answer in answers) == 1


async def test_missing_blob_is_not_found(blobs: ObjectBlobs, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        blobs.size("nothing")
    with pytest.raises(NotFound):
        blobs.read("nothing", 0, 10)
    with pytest.raises(NotFound):
        blobs.read("nothing", 7, 10)
    with pytest.raises(FileNotFoundError):
        await blobs.put("key", pieces(tmp_path / "nothing"))


async def test_deleted_blob_is_not_found_and_can_be_deleted_again(
    blobs: ObjectBlobs, storage: ObjectStorage, file: Path
) -> None:
    for key in ("doomed/1", "doomed/2"):
        assert await blobs.put(key, pieces(file))
    for _ in range(2):
        await blobs.delete("doomed/1")
    assert list(filter(lambda key: "doomed" in key, storage.keys())) == ["kept/here/doomed/2"]
    with pytest.raises(NotFound):
        await asyncio.to_thread(blobs.size, "doomed/1")
    await blobs.delete("doomed/nothing")


@pytest.mark.parametrize("key", ["../outside", "a/../../outside", "/outside", "kept/here/../../outside"])
async def test_blob_outside_the_prefix_is_never_deleted(blobs: ObjectBlobs, storage: ObjectStorage, key: str) -> None:
    storage.client.put_object(Bucket=BUCKET, Key="outside", Body=b"not ours")
    with contextlib.suppress(Unavailable):
        await blobs.delete(key)
    assert storage.client.get_object(Bucket=BUCKET, Key="outside")["Body"].read() == b"not ours"


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/x"])
def test_attack_key_that_points_outside_the_prefix_is_not_found(blobs: ObjectBlobs, key: str) -> None:
    """Keys come from the store: one invalid key must not end the verification of all others."""
    with pytest.raises(NotFound):
        blobs.size(key)
    with pytest.raises(NotFound):
        blobs.read(key, 0, 10)


async def test_missing_bucket_is_unavailable_and_not_a_missing_blob(
    blobs: ObjectBlobs, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Unavailable, match="s3://nowhere/x cannot be used"):
        await ObjectBlobs("s3://nowhere/x?allow_http=true").put("key", pieces(file))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/x", "must be"),
        ("s3:///x", "must be"),
        ("recordings", "must be"),
        ("s3://key:secret@bucket/x", "without credentials"),
        ("s3://bucket/x#part", "must be"),
        ("s3://bucket?secret_access_key=hunter2", "no option 'secret_access_key'"),
        ("gs://bucket?region=x", "it has no options"),
        ("az://container/x", "Account must be specified"),
    ],
)
def test_invalid_blob_store_address_is_misconfigured_without_quoting_secrets(
    url: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(Misconfigured, match=said) as caught:
        ObjectBlobs(url)
    assert "hunter2" not in caught.value.message
    assert "secret@" not in caught.value.message


@pytest.mark.parametrize("url", ["gs://bucket/prefix", "az://container/prefix?account=shop"])
def test_google_and_azure_blob_stores_are_opened(url: str) -> None:
    assert ObjectBlobs(url).name == url.partition("?")[0]


async def test_unencrypted_blob_store_is_allowed_only_on_loopback(
    storage: ObjectStorage, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in storage.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://192.0.2.1:9")
    with pytest.raises(Unavailable):
        await ObjectBlobs(URL, write=2).put("plain", pieces(file))
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    nearby = ObjectBlobs(f"{URL}?endpoint={storage.endpoint}")  # on loopback it may
    assert await nearby.put("plain", pieces(file))


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            while length > 0:
                length -= len(self.rfile.read(min(length, 65536)))
            answer(self)

        def do_GET(self) -> None:
            answer(self)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_given: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def says(status: int, body: bytes = b"<Error><Code>Bad</Code></Error>") -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    return answer


def hangs(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(3)


def cut(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"x")
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "answer", [says(500), says(503), says(507), says(403), says(401), hangs, cut], ids=lambda one: one.__name__
)
@pytest.mark.ci
async def test_failing_blob_store_is_unavailable_within_its_deadline(
    answer: Callable[[BaseHTTPRequestHandler], None], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    with serving(answer) as endpoint:
        blobs = ObjectBlobs(f"{URL}?endpoint={endpoint}", write=1.0, read=1.0)
        began = time.monotonic()
        if answer is not cut:
            with pytest.raises(Unavailable, match="cannot be used") as caught:
                await blobs.put("key", pieces(file))
            assert "hunter2" not in caught.value.message
            assert len(caught.value.message) < 500
        with pytest.raises(Unavailable):
            await asyncio.to_thread(blobs.read, "key", 0, 10)
        if answer is not cut:  # which is an answer: 200
            with pytest.raises(Unavailable, match="cannot be used"):
                await blobs.delete("key")
        assert time.monotonic() - began < within(7)


async def test_unreachable_blob_store_is_unavailable(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        blobs = ObjectBlobs(f"{URL}?endpoint=http://127.0.0.1:{taken.getsockname()[1]}", write=2, read=2)
        with pytest.raises(Unavailable):
            await blobs.put("key", pieces(file))
        with pytest.raises(Unavailable):
            await asyncio.to_thread(blobs.size, "key")

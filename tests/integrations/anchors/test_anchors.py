"""Anchors, each against the real thing: a disk, an HTTP server, and S3 as mocked by moto."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer
from tests.support.proofs import BEGIN, ORG

from postern.domain.secret import Secret
from postern.domain.sessions.ledger import Checkpoint, LedgerHead
from postern.errors import Misconfigured, Unavailable
from postern.integrations.anchors.anchor_webhook import WebhookAnchor
from postern.integrations.anchors.bucket import BucketAnchor
from postern.integrations.anchors.file import FileAnchor
from postern.proof.proof_checkpoints import format_line, new_key, read_line, sign_checkpoint
from postern.settings import load
from postern.wiring.app import anchors

pytestmark = pytest.mark.ci

KEY = new_key(ORG, BEGIN)
SECRET = Secret("both ends know it")


def now() -> datetime:
    return datetime.now(UTC)


def checkpoint(number: int = 1) -> Checkpoint:
    return sign_checkpoint(KEY, LedgerHead(number, bytes(32)), BEGIN)


async def test_file_anchor_appends_a_line_for_each_checkpoint(tmp_path: Path) -> None:
    anchor = FileAnchor(tmp_path / "anchors.jsonl")
    for number in (1, 2):
        await anchor.put(checkpoint(number), format_line(checkpoint(number)))
    lines = (tmp_path / "anchors.jsonl").read_bytes().splitlines()
    assert [read_line(line) for line in lines] == [checkpoint(1), checkpoint(2)]


async def test_file_anchor_on_a_full_or_missing_disk_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file"):
        await FileAnchor(tmp_path / "away" / "x").put(checkpoint(), b"{}")
    with pytest.raises(Unavailable, match="No space left"):
        await FileAnchor(Path("/dev/full")).put(checkpoint(), b"{}")


class Receiver(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status = 204
        self.heard: list[tuple[dict[str, str], bytes]] = []


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Receiver)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.heard.append((headers, self.rfile.read(int(headers["content-length"]))))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()

    def log_message(self, *given: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


async def test_webhook_anchor_sends_the_checkpoint_signed_with_the_shared_secret(receiver: Receiver) -> None:
    anchor = WebhookAnchor(f"http://127.0.0.1:{receiver.server_port}/anchors", SECRET, now)
    line = format_line(checkpoint(7))
    await anchor.put(checkpoint(7), line)
    [(headers, body)] = receiver.heard
    assert body == line
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = hmac.new(SECRET.reveal().encode(), text, hashlib.sha256).digest()
    assert headers["webhook-signature"] == "v1," + base64.b64encode(expected).decode()
    assert headers["webhook-id"] == f"checkpoint-{ORG}-7"


@pytest.mark.parametrize("status", [302, 400, 500])
async def test_webhook_anchor_that_rejects_a_checkpoint_is_unavailable(receiver: Receiver, status: int) -> None:
    receiver.status = status
    anchor = WebhookAnchor(f"http://127.0.0.1:{receiver.server_port}/", SECRET, now)
    with pytest.raises(Unavailable, match=str(status)):
        await anchor.put(checkpoint(), b"{}")


async def test_unreachable_webhook_anchor_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        await WebhookAnchor("http://127.0.0.1:1/", SECRET, now).put(checkpoint(), b"{}")


def test_webhook_anchor_without_https_or_a_secret_is_misconfigured() -> None:
    with pytest.raises(Misconfigured, match="https"):
        WebhookAnchor("http://example.com/", SECRET, now)
    with pytest.raises(Misconfigured, match="SECRET"):
        WebhookAnchor("https://example.com/", Secret(""), now)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    httpx.post(f"{url}/moto-api/reset").raise_for_status()
    for name, value in {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    yield boto3.client("s3")
    server.stop()


async def test_bucket_anchor_locks_the_checkpoint(s3: Any) -> None:
    s3.create_bucket(Bucket="anchors", ObjectLockEnabledForBucket=True)
    anchor = BucketAnchor("s3://anchors/postern", timedelta(days=30), now)
    await anchor.put(checkpoint(3), format_line(checkpoint(3)))
    key = f"postern/{ORG}/000000000003.json"
    kept = s3.get_object(Bucket="anchors", Key=key)
    assert read_line(kept["Body"].read().rstrip(b"\n")) == checkpoint(3)
    assert kept["ObjectLockMode"] == "COMPLIANCE"
    assert kept["ObjectLockRetainUntilDate"] - now() > timedelta(days=29)
    with pytest.raises(ClientError, match="AccessDenied"):
        s3.delete_object(Bucket="anchors", Key=key, VersionId=kept["VersionId"])


async def test_missing_or_unlocked_bucket_anchor_is_unavailable(s3: Any) -> None:
    with pytest.raises(Unavailable, match="NoSuchBucket"):
        await BucketAnchor("s3://nowhere", timedelta(days=1), now).put(checkpoint(), b"{}")
    s3.create_bucket(Bucket="plain")
    with pytest.raises(Unavailable, match="InvalidRequest"):
        await BucketAnchor("s3://plain", timedelta(days=1), now).put(checkpoint(), b"{}")


def test_configured_anchors_are_created_and_invalid_ones_are_misconfigured(tmp_path: Path, s3: Any) -> None:
    environ = {
        "POSTERN_HOME": str(tmp_path),
        "POSTERN_ANCHOR_FILE": str(tmp_path / "anchors.jsonl"),
        "POSTERN_ANCHOR_WEBHOOK": "https://example.com/anchors",
        "POSTERN_ANCHOR_WEBHOOK_SECRET": "x",
        "POSTERN_ANCHOR_BUCKET": "s3://anchors",
    }
    assert [one.name for one in anchors(load(environ))] == ["file", "webhook", "bucket"]
    assert anchors(load({"POSTERN_HOME": str(tmp_path)})) == ()
    for name, value in (("FILE", str(tmp_path / "away" / "x")), ("BUCKET", "gs://x")):
        with pytest.raises(Misconfigured, match=name):
            anchors(load(environ | {f"POSTERN_ANCHOR_{name}": value}))

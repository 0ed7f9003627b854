"""AWS KMS as moto plays it, over HTTP on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest
from moto.server import ThreadedMotoServer

REGION = "eu-central-1"


@contextmanager
def kms(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serves; boto3 finds it and its credentials by the environment. The ARN of a key of its own."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", f"http://{host}:{port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield new_key()
    finally:
        server.stop()


def new_key() -> str:
    arn: str = boto3.client("kms", region_name=REGION).create_key()["KeyMetadata"]["Arn"]
    return arn

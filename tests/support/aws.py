"""AWS Secrets Manager and S3 as moto plays them, over HTTP on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
import httpx
from moto.server import ThreadedMotoServer

REGION = "eu-central-1"


@dataclass(frozen=True)
class SecretsManager:
    """`environment` is what lets a process in."""

    environment: dict[str, str]
    client: Any

    def keep(self, name: str, value: dict[str, object] | str | bytes) -> str:
        """Its ARN."""
        kind = "SecretBinary" if isinstance(value, bytes) else "SecretString"
        text = json.dumps(value) if isinstance(value, dict) else value
        arn: str = self.client.create_secret(Name=name, **{kind: text})["ARN"]
        return arn


@contextmanager
def secrets_manager() -> Iterator[SecretsManager]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        httpx.post(f"{url}/moto-api/reset").raise_for_status()  # all of its servers in one process share what they keep
        environment = {
            "AWS_ENDPOINT_URL_SECRETS_MANAGER": url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REGION": REGION,
        }
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        yield SecretsManager(environment, boto3.client("secretsmanager", region_name=REGION, endpoint_url=url, **keys))
    finally:
        server.stop()


BUCKET = "recordings"


@dataclass(frozen=True)
class ObjectStorage:
    """S3 with one bucket. `environment` is what lets a process in, `stop` shuts it down."""

    environment: dict[str, str]
    client: Any
    endpoint: str
    server: ThreadedMotoServer

    def keys(self) -> list[str]:
        return [one["Key"] for one in self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]


@contextmanager
def object_storage() -> Iterator[ObjectStorage]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        httpx.post(f"{url}/moto-api/reset").raise_for_status()
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        client = boto3.client("s3", region_name=REGION, endpoint_url=url, **keys)
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        environment = {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
        }
        yield ObjectStorage(environment, client, url, server)
    finally:
        server.stop()

"""AWS Secrets Manager and S3 as moto plays them, over HTTP on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import boto3
import httpx
from moto.server import ThreadedMotoServer
from tests.support.postgres import free_port

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


@contextmanager
def signed_aws() -> Iterator[tuple[str, dict[str, str]]]:
    """An address that takes only requests with valid signatures, and the environment of a user who may do anything.

    It is a process of its own: moto counts requests until it checks signatures.
    """
    port = free_port()
    environment = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "4"}
    command = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", "moto.server", "-H", "127.0.0.1"]
    process = subprocess.Popen(
        [*command, "-p", str(port)], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(httpx.TransportError):
                httpx.get(f"{url}/moto-api/data.json")
                break
            time.sleep(0.1)
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        iam = boto3.client("iam", region_name=REGION, endpoint_url=url, **keys)
        iam.create_user(UserName="operator")
        anything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
        iam.put_user_policy(
            UserName="operator",
            PolicyName="anything",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [anything]}),
        )
        role = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
        iam.create_role(
            RoleName="reader", AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [role]})
        )
        key = iam.create_access_key(UserName="operator")["AccessKey"]
        yield (
            url,
            {
                "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
                "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
                "AWS_REGION": REGION,
            },
        )
    finally:
        process.kill()
        process.wait()

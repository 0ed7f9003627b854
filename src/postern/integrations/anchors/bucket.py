"""An anchor that is an S3 bucket with object lock: no user, not even its owner, can delete objects before their time.

Each checkpoint is an object `PREFIX/<organisation>/<number>.json`, locked in compliance mode. Needs `s3:PutObject` and
`s3:PutObjectRetention` on a bucket that was created with object lock. Credentials, region and the address of another
provider (`AWS_ENDPOINT_URL_S3`) are found as in every AWS program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from postern.domain.sessions.ledger import Checkpoint
from postern.errors import Misconfigured, Unavailable

_CONNECT, _READ = 5, 10  # seconds


class BucketAnchor:
    name = "bucket"

    def __init__(self, url: str, retention: timedelta, now: Callable[[], datetime]) -> None:
        """`url` is `s3://BUCKET/PREFIX`. Raises Misconfigured."""
        parts = urlsplit(url)
        if parts.scheme != "s3" or not parts.netloc:
            raise Misconfigured("POSTERN_ANCHOR_BUCKET: must be s3://BUCKET/PREFIX", field="anchor_bucket")
        self._bucket = parts.netloc
        self._prefix = parts.path.strip("/")
        self._retention = retention
        self._now = now
        config = Config(connect_timeout=_CONNECT, read_timeout=_READ, retries={"total_max_attempts": 1})
        try:
            self._client = boto3.client("s3", config=config)
        except (BotoCoreError, ValueError) as error:
            raise Misconfigured(f"the anchor bucket cannot be used: {error}", field="anchor_bucket") from None

    async def put(self, checkpoint: Checkpoint, line: bytes) -> None:
        """Store a checkpoint. A repeated call adds a version of the object; the first one stays. Raises Unavailable."""
        name = f"{checkpoint.org_id}/{checkpoint.number:012}.json"
        await asyncio.to_thread(self._put, f"{self._prefix}/{name}".lstrip("/"), line)

    def _put(self, key: str, line: bytes) -> None:
        lock: dict[str, Any] = {
            "ObjectLockMode": "COMPLIANCE",
            "ObjectLockRetainUntilDate": self._now() + self._retention,
            "ChecksumAlgorithm": "SHA256",
        }
        try:
            self._client.put_object(
                Bucket=self._bucket, Key=key, Body=line + b"\n", ContentType="application/json", **lock
            )
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            raise Unavailable(f"the bucket {self._bucket!r} rejected the checkpoint: {code}") from None
        except BotoCoreError as error:
            raise Unavailable(f"the bucket {self._bucket!r} does not answer: {type(error).__name__}") from None

"""Connections of a gateway to DynamoDB Local, and boto3 with credentials of the gateway."""

from __future__ import annotations

import base64
from typing import Any

import boto3
from botocore.config import Config
from tests.support.gateway import Gateway

from postern.domain.identity.credential import Issued
from postern.domain.secret import Secret
from postern.domain.targets.connection import Connection, ConnectionType, Toggle
from postern.wiring import tls

REGION = "eu-central-1"
TARGET_KEYS = {"AWS_ACCESS_KEY_ID": "AKIDTARGET", "AWS_SECRET_ACCESS_KEY": "target-secret"}


def dynamodb_connection(gateway: Gateway, name: str, endpoint: str, **more: Any) -> Connection:
    values = {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": REGION, **TARGET_KEYS}
    fields: dict[str, Any] = {
        "name": name,
        "type": ConnectionType.CUSTOM,
        "subtype": "dynamodb",
        "agent_id": gateway._agent.id,
        "access_mode_connect": Toggle.ENABLED,
        "access_mode_exec": Toggle.ENABLED,
        "access_mode_runbooks": Toggle.ENABLED,
        "access_schema": Toggle.ENABLED,
        "secret": {f"envvar:{key}": Secret(base64.b64encode(value.encode()).decode()) for key, value in values.items()},
        **more,
    }
    return gateway.call(gateway.services.connections.create(gateway.admin, fields))


def direct_client(endpoint: str, service: str = "dynamodb") -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=TARGET_KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=TARGET_KEYS["AWS_SECRET_ACCESS_KEY"],
    )


def gateway_client(gateway: Gateway, issued: Issued, service: str = "dynamodb", **changes: Any) -> Any:
    authority = tls.authority(gateway.settings)
    password = issued.password.reveal()
    given: dict[str, Any] = {
        "endpoint_url": f"https://localhost:{gateway.settings.dynamodb_port}",
        "region_name": REGION,
        "aws_access_key_id": issued.credential.username,
        "aws_secret_access_key": password,
        "aws_session_token": password,
        "verify": str(authority),
        "config": Config(retries={"total_max_attempts": 3}),
    }
    return boto3.client(service, **(given | changes))

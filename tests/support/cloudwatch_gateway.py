"""Connections of a gateway to moto's CloudWatch, and boto3 with credentials of the gateway."""

from __future__ import annotations

import base64
from typing import Any

import boto3
from botocore.config import Config
from tests.support.cloudwatch_target import REGION
from tests.support.gateway import Gateway

from postern.domain.identity.credential import Issued
from postern.domain.secret import Secret
from postern.domain.targets.connection import Connection, ConnectionType, Toggle
from postern.wiring import tls


def cloudwatch_connection(gateway: Gateway, name: str, endpoint: str, **more: Any) -> Connection:
    values = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    fields: dict[str, Any] = {
        "name": name,
        "type": ConnectionType.CUSTOM,
        "subtype": "cloudwatch",
        "agent_id": gateway._agent.id,
        "access_mode_connect": Toggle.ENABLED,
        "access_mode_exec": Toggle.ENABLED,
        "access_mode_runbooks": Toggle.ENABLED,
        "access_schema": Toggle.ENABLED,
        "secret": {f"envvar:{key}": Secret(base64.b64encode(value.encode()).decode()) for key, value in values.items()},
        **more,
    }
    return gateway.call(gateway.services.connections.create(gateway.admin, fields))


def cloudwatch_client(gateway: Gateway, issued: Issued, service: str = "logs", **changes: Any) -> Any:
    password = issued.password.reveal()
    given: dict[str, Any] = {
        "endpoint_url": f"https://localhost:{gateway.settings.cloudwatch_port}",
        "region_name": REGION,
        "aws_access_key_id": issued.credential.username,
        "aws_secret_access_key": password,
        "aws_session_token": password,
        "verify": str(tls.authority(gateway.settings)),
        "config": Config(retries={"total_max_attempts": 3}, inject_host_prefix=False),
    }
    return boto3.client(service, **(given | changes))

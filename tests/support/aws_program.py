"""A client of AWS at a command line: it sends each line of its input by boto3, and prints the answer as JSON.

    python aws_program.py SERVICE URL USER PASSWORD AUTHORITY

A line is an operation with its parameters: `GetItem {"TableName": "orders", …}`. An error is printed as `ERROR CODE
MESSAGE`, and so is a response that broke off. It ends after the first line if that was refused before its session
began. Nothing is tried again, so that each line is one request.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError


def main(service: str, url: str, user: str, password: str, authority: str) -> int:
    client = boto3.client(
        service,
        endpoint_url=url,
        region_name="eu-central-1",
        aws_access_key_id=user,
        aws_secret_access_key=password,
        aws_session_token=password,
        verify=authority,
        config=Config(retries={"total_max_attempts": 1}, read_timeout=600, inject_host_prefix=False),
    )
    methods = {operation: method for method, operation in client.meta.method_to_api_mapping.items()}
    has_begun = False
    for line in sys.stdin:
        operation, _, parameters = line.strip().partition(" ")
        if not operation:
            continue
        if not send(getattr(client, methods[operation]), json.loads(parameters)) and not has_begun:
            return 1
        has_begun = True
    return 0


def send(method: Any, parameters: dict[str, Any]) -> bool:
    """Print the answer. Return whether it was a success."""
    try:
        answer = method(**parameters)
    except ClientError as error:
        print(f"ERROR {error.response['Error']['Code']} {error.response['Error']['Message']}", flush=True)
        return False
    except BotoCoreError as error:
        print(f"ERROR the connection ended: {error}", flush=True)
        return False
    del answer["ResponseMetadata"]
    print(json.dumps(answer, ensure_ascii=False, default=str), flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Clients of CloudWatch: the AWS CLI, and credentials as SDKs take them. Logs and metrics have the same address.

With an address of their own, SDKs still put `stream-` in front of the host for live tail, unless they are told not to
(`inject_host_prefix`).
"""

from __future__ import annotations

from typing import Final

from postern.protocols.aws.aws_client import (
    aws_variables,
    boto3_call,
    command_line,
    export_lines,
    local_line,
    profile_text,
)
from postern.protocols.clients import CredentialForm, NativeClient, NativeCredential, PasswordSource

_LOGS: Final = "CLOUDWATCH_LOGS"
_METRICS: Final = "CLOUDWATCH"
_COMMAND: Final = ["aws", "logs", "describe-log-groups"]


def _variables(credential: NativeCredential) -> dict[str, str]:
    return {**aws_variables(credential, _LOGS), f"AWS_ENDPOINT_URL_{_METRICS}": f"https://{credential.netloc}"}


def cloudwatch_line(credential: NativeCredential) -> str:
    """Return a command of the AWS CLI with its credential, quoted for a shell."""
    return command_line(_variables(credential), _COMMAND)


def carried_line(host: str, port: int, database: str) -> str:
    """Return a command for a local port, which needs no password."""
    return local_line(host, port, _COMMAND)


def _env(credential: NativeCredential) -> str:
    """Return a line for a shell that all SDKs read."""
    return export_lines(_variables(credential))


def _profile(credential: NativeCredential) -> str:
    metrics = f"{_METRICS.lower()} =\n  endpoint_url = https://{credential.netloc}"
    return f"{profile_text(credential, _LOGS)}\n{metrics}"


def _boto3(credential: NativeCredential) -> str:
    return boto3_call(credential, "logs", "config=botocore.config.Config(inject_host_prefix=False)")


CLIENT: Final = NativeClient(
    names=("aws",),
    package="awscli",
    elsewhere="awscli",
    shows_waiting=False,
    line=cloudwatch_line,
    carried_line=carried_line,
    forms={
        "env": CredentialForm(_env, PasswordSource.LINE),
        "profile": CredentialForm(_profile, PasswordSource.LINE),
        "boto3": CredentialForm(_boto3, PasswordSource.SETTING),
    },
    examples=("postern connect logs --native --format profile >> ~/.aws/config",),
)

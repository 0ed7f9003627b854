"""Clients of DynamoDB: the AWS CLI, and credentials as SDKs take them."""

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

_SERVICE: Final = "DYNAMODB"
_COMMAND: Final = ["aws", "dynamodb", "list-tables"]


def dynamodb_line(credential: NativeCredential) -> str:
    """Return a command of the AWS CLI with its credential, quoted for a shell."""
    return command_line(aws_variables(credential, _SERVICE), _COMMAND)


def carried_line(host: str, port: int, database: str) -> str:
    """Return a command for a local port, which needs no password."""
    return local_line(host, port, _COMMAND)


def _env(credential: NativeCredential) -> str:
    """Return a line for a shell that all SDKs read."""
    return export_lines(aws_variables(credential, _SERVICE))


def _profile(credential: NativeCredential) -> str:
    return profile_text(credential, _SERVICE)


def _boto3(credential: NativeCredential) -> str:
    return boto3_call(credential, "dynamodb")


CLIENT: Final = NativeClient(
    names=("aws",),
    package="awscli",
    elsewhere="awscli",
    shows_waiting=False,
    line=dynamodb_line,
    carried_line=carried_line,
    forms={
        "env": CredentialForm(_env, PasswordSource.LINE),
        "profile": CredentialForm(_profile, PasswordSource.LINE),
        "boto3": CredentialForm(_boto3, PasswordSource.SETTING),
    },
    examples=("postern connect orders --native --format profile >> ~/.aws/config",),
)

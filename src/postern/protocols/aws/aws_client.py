"""How programs of AWS's SDKs are told the address and the credential of the gateway.

They need three variables for the credential, as for temporary credentials: the password is secret key and session
token. The region only has to be one; the agent signs for the target's.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

from postern.protocols.clients import NativeCredential, netloc

REGION = "us-east-1"
_REGIONS = {"AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}  # the AWS CLI and boto3 only read the second
_PLACEHOLDER = "PASSWORD"


def aws_variables(credential: NativeCredential, service: str) -> dict[str, str]:
    """Return the variables of the environment. `service` is the name in `AWS_ENDPOINT_URL_…`."""
    password = _PLACEHOLDER if credential.password is None else credential.password.reveal()
    variables = {
        f"AWS_ENDPOINT_URL_{service}": f"https://{credential.netloc}",
        "AWS_ACCESS_KEY_ID": credential.user,
        "AWS_SECRET_ACCESS_KEY": password,
        "AWS_SESSION_TOKEN": password,
        **_REGIONS,
    }
    if credential.authority is not None:
        variables["AWS_CA_BUNDLE"] = str(credential.authority)
    return variables


def export_lines(variables: Mapping[str, str]) -> str:
    """Return a line for a shell, quoted for it."""
    return "export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())


def command_line(variables: Mapping[str, str], words: list[str]) -> str:
    """Return a command with its variables before it, quoted for a shell."""
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), shlex.join(words)])


def profile_text(credential: NativeCredential, service: str) -> str:
    """Return a profile of `~/.aws/config` with the address and the credential."""
    password = _PLACEHOLDER if credential.password is None else credential.password.reveal()
    lines = [
        "[profile postern]",
        "services = postern",
        f"region = {REGION}",
        f"aws_access_key_id = {credential.user}",
        f"aws_secret_access_key = {password}",
        f"aws_session_token = {password}",
        *([f"ca_bundle = {credential.authority}"] if credential.authority is not None else []),
        "",
        "[services postern]",
        f"{service.lower()} =",
        f"  endpoint_url = https://{credential.netloc}",
    ]
    return "\n".join(lines)


def boto3_call(credential: NativeCredential, service: str, *settings: str) -> str:
    """Return the call of boto3 that makes a client. Text in JSON's escapes is valid in Python."""
    password = _PLACEHOLDER if credential.password is None else json.dumps(credential.password.reveal())
    arguments = [
        json.dumps(service),
        f"endpoint_url={json.dumps('https://' + credential.netloc)}",
        f"region_name={json.dumps(REGION)}",
        f"aws_access_key_id={json.dumps(credential.user)}",
        f"aws_secret_access_key={password}",
        f"aws_session_token={password}",
        *([f"verify={json.dumps(str(credential.authority))}"] if credential.authority is not None else []),
        *settings,
    ]
    return f"boto3.client({', '.join(arguments)})"


def local_line(host: str, port: int, words: list[str]) -> str:
    """Return a command for a local port, which needs no password: SDKs want keys all the same."""
    keys = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", **_REGIONS}
    return command_line(keys, [*words, "--endpoint-url", f"http://{netloc(host, port)}"])

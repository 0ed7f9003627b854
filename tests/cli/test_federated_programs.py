"""A job of a CI system at a whole gateway: it runs scripts and connects, and its sessions say which job it was."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

from postern.cli.login import profile
from postern.client.client_http import Http
from postern.errors import Invalid

pytestmark = pytest.mark.ci

KEY = ECKey.generate_key("P-256", {"kid": "a"})
SUBJECT = "repo:acme/shop:ref:refs/heads/main"
KNOWN = {"federation_rule": "shop", "federation_subject": SUBJECT, "federation_run": "4711"}


def log_in(gateway: Gateway) -> None:
    now = int(time.time())
    claims = {"iss": "https://id.example.com", "aud": gateway.told["api_url"], "sub": SUBJECT, "run_id": "4711"}
    token = jwt.encode({"alg": "ES256", "kid": "a"}, {**claims, "iat": now, "exp": now + 300, "jti": str(uuid4())}, KEY)
    file = gateway.folder / "token"
    file.write_text(token)
    done = gateway.run("login", gateway.told["api_url"], "--token-file", str(file), "--profile", "job")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    keys: Path = tmp_path_factory.mktemp("keys") / "jwks.json"
    keys.write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    with started("--no-demo", "--gateway-commands") as made:
        for arguments in (
            ("connections", "create", "shell", "--command", "bash --norc"),
            ("admin", "service-accounts", "create", "deploy"),
            (
                *("admin", "federation-rules", "create", "shop", "--service-account", "deploy", "--jwks", str(keys)),
                *(
                    "--issuer",
                    "https://id.example.com",
                    "--audience",
                    made.told["api_url"],
                    "--claim",
                    "sub=repo:acme/*:ref:refs/heads/main",
                ),
            ),
        ):
            done = made.run(*arguments)
            assert done.returncode == 0, done.stderr
        log_in(made)
        yield made


def newest(gateway: Gateway, verb: str) -> dict[str, Any]:
    row = next(one for one in gateway.sessions() if one["verb"] == verb)
    session: dict[str, Any] = json.loads(gateway.run("sessions", "show", row["id"], "--json").stdout)
    return session


def test_script_of_a_job_says_which_job_it_was(gateway: Gateway) -> None:
    done = gateway.run("exec", "shell", "-i", "echo hello", "--profile", "job")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    session = newest(gateway, "exec")
    assert session["user"] == "deploy"
    assert KNOWN.items() <= session["metadata"].items()


def test_names_of_a_jobs_metadata_are_reserved(gateway: Gateway) -> None:
    used = profile.require(gateway.environment)
    body = {"connection": "shell", "script": "true", "metadata": {"federation_rule": "shop"}}
    with (
        Http(used.api_url, used.token, authority=used.authority or None) as http,
        pytest.raises(Invalid, match="reserved"),
    ):
        http.call("POST", "/sessions", body=body)


def test_connection_of_a_job_ends_when_its_rule_is_deleted(gateway: Gateway) -> None:
    log_in(gateway)
    with subprocess.Popen(
        [sys.executable, "-m", "postern", "connect", "shell", "--profile", "job", "--", "-c", "echo ready; sleep 600"],
        env=gateway.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            session = newest(gateway, "connect")
            assert KNOWN.items() <= session["metadata"].items()
            done = gateway.run("admin", "federation-rules", "delete", "shop", "--yes")
            assert done.returncode == 0, done.stderr
            assert process.wait(60) != 0
        finally:
            process.kill()
    ended = wait_until(lambda: (row := newest(gateway, "connect"))["status"] == "done" and row)
    assert ended["metadata"]["end_reason"] == "revoked"
    assert gateway.run("whoami", "--profile", "job").returncode == 3

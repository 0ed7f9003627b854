"""`postern login --federated`: where it finds the token, and what it does with it. GitHub is a server of our own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from tests.support.served import Served

from postern.cli.login.federated_tokens import TokenSource, find_token
from postern.errors import Invalid, PosternError, Unauthenticated, Unavailable

ISSUER = "https://id.example.com"
NOWHERE = Path("/nonexistent/token")
KEY = ECKey.generate_key("P-256", {"kid": "a"})


def signed(audience: str, **claims: Any) -> str:
    now = int(time.time())
    base = {"iss": ISSUER, "aud": audience, "sub": "job", "repository": "acme/shop", "iat": now, "exp": now + 300}
    return jwt.encode({"alg": "ES256", "kid": "a"}, {**base, **claims}, KEY)


class GitHub:
    """Answers `status` and `content`, in this order, the last one again and again."""

    def __init__(self, *answers: tuple[int, object]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[dict[str, list[str]], str | None]] = []
        self.environment: dict[str, str] = {}

    def answer(self, path: str, authorization: str | None) -> tuple[int, object]:
        self.asked.append((parse_qs(urlsplit(path).query), authorization))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def github(*answers: tuple[int, object]) -> Iterator[GitHub]:
    double = GitHub(*answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = double.answer(self.path, self.headers["Authorization"])
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    double.environment = {
        "GITHUB_ACTIONS": "true",
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"http://127.0.0.1:{server.server_address[1]}/token?api-version=2.0",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "of-the-job",
    }
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def found(environ: dict[str, str], source: TokenSource | None = None, mounted: Path = NOWHERE) -> str:
    return find_token(
        environ, source or TokenSource(), "https://gate.example.com", mounted=mounted, sleep=lambda _: None
    ).reveal()


def test_token_is_requested_at_github_for_this_gateway() -> None:
    with github((200, {"value": "a.b.c", "count": 1})) as double:
        assert found(double.environment) == "a.b.c"
    query, authorization = double.asked[0]
    assert query == {"api-version": ["2.0"], "audience": ["https://gate.example.com"]}
    assert authorization == "Bearer of-the-job"


def test_github_is_asked_again_while_it_is_away() -> None:
    with github((503, {}), (502, {}), (200, {"value": "a.b.c"})) as double:
        assert found(double.environment) == "a.b.c"
    with github((500, {})) as double, pytest.raises(Unavailable, match="it answered 500"):
        found(double.environment)
    assert len(double.asked) == 3


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        ((403, {}), Unavailable, "id-token: write"),
        ((302, {}), Unavailable, "it answered 302"),
        ((200, {}), Unavailable, "no token"),
        ((200, ["x"]), Unavailable, "no token"),
        ((200, {"value": "no token at all"}), Invalid, "does not contain a signed token"),
    ],
)
def test_other_answers_of_github(answer: tuple[int, object], error: type[PosternError], why: str) -> None:
    with github(answer) as double, pytest.raises(error, match=why):
        found(double.environment)
    assert len(double.asked) == 1


def test_jobs_token_is_not_sent_over_plain_http() -> None:
    environ = {"ACTIONS_ID_TOKEN_REQUEST_URL": "http://evil.example/", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "x"}
    with pytest.raises(Invalid, match="not an https address"):
        found(environ)


def test_token_comes_from_a_variable_a_file_or_the_pod(tmp_path: Path) -> None:
    file, mounted = tmp_path / "token", tmp_path / "mounted"
    file.write_text("file.b.c\n")
    mounted.write_text("pod.b.c")
    environ = {"POSTERN_ID_TOKEN": "gitlab.b.c", "OTHER": "other.b.c"}
    assert found(environ, TokenSource(file, "OTHER"), mounted) == "file.b.c"
    assert found(environ, TokenSource(variable="OTHER"), mounted) == "other.b.c"
    assert found(environ, None, mounted) == "gitlab.b.c"
    assert found({}, None, mounted) == "pod.b.c"


def test_missing_tokens_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Unauthenticated, match="`--token-file` or `--token-env`"):
        found({})
    with pytest.raises(Unauthenticated, match="id-token: write"):
        found({"GITHUB_ACTIONS": "true"})
    with pytest.raises(Unauthenticated, match="MISSING is not set"):
        found({}, TokenSource(variable="MISSING"))
    with pytest.raises(Unauthenticated, match="cannot be read"):
        found({}, TokenSource(tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff.\xff.\xff")
    with pytest.raises(Unauthenticated, match="cannot be read"):
        found({}, TokenSource(tmp_path / "binary"))
    with pytest.raises(Invalid, match="does not contain a signed token"):
        found({"POSTERN_ID_TOKEN": "pst_x"})


@pytest.fixture
def trusting(gate: Served, tmp_path: Path) -> Served:
    """A gateway that trusts the issuer, and a command line that is logged in nowhere."""
    gate.log_in()
    keys = tmp_path / "jwks.json"
    keys.write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    gate.ok("admin", "service-accounts", "create", "deploy", "--group", "dba")
    created = gate.ok(
        *("admin", "federation-rules", "create", "shop", "--service-account", "deploy", "--issuer", ISSUER),
        *("--audience", gate.url, "--claim", "repository=acme/*", "--jwks", str(keys)),
    )
    assert created.stdout == "Created shop.\n"
    gate.ok("logout")
    return gate


def test_job_logs_in_and_uses_the_gateway(trusting: Served) -> None:
    with github((200, {"value": signed(trusting.url)})) as double:
        done = trusting.ok("login", "--federated", trusting.url, **double.environment)
    assert done.stdout == f"Logged in to {trusting.url} as deploy.\n"
    who = trusting.json("whoami")
    assert (who["email"], who["groups"], who["login_method"]) == ("deploy", ["dba"], "federation")
    assert "federation" in trusting.ok("whoami").stdout
    profile = next(iter(trusting.config.profiles.values()))
    assert profile.refresh_at is None
    trusting.ok("logout")


def test_gitlab_job_logs_in_by_a_variable(trusting: Served) -> None:
    trusting.ok("login", trusting.url, "--federated", POSTERN_ID_TOKEN=signed(trusting.url))
    trusting.ok("login", trusting.url, "--token-env", "CI_TOKEN", CI_TOKEN=signed(trusting.url, sub="other"))


def test_rejected_token_leaves_the_profile_as_it_is(trusting: Served, tmp_path: Path) -> None:
    before = trusting.file.read_text()
    file = tmp_path / "token"
    file.write_text(signed(trusting.url, repository="mallory/shop"))
    failed = trusting.cli("login", trusting.url, "--token-file", str(file))
    assert failed.exit_code == 4, failed.output
    assert "missing: repository; `postern admin federation-rules list` shows the rules\n" in failed.output
    assert file.read_text() not in failed.output
    assert trusting.file.read_text() == before


def test_claims_that_cannot_be_read_are_a_usage_error(gate: Served) -> None:
    gate.log_in()
    failed = gate.cli(
        *("admin", "federation-rules", "create", "shop", "--service-account", "x", "--issuer", "github"),
        *("--audience", "x", "--claim", "repository"),
    )
    assert failed.exit_code == 2
    assert "write it as CLAIM=VALUE" in failed.output

"""The token with which a program logs in where it runs: a CI system or Kubernetes gives it, and nothing is stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from postern.domain.secret import Secret
from postern.errors import Invalid, Unauthenticated, Unavailable

VARIABLE = "POSTERN_ID_TOKEN"  # of a GitLab job's `id_tokens`
MOUNTED = Path("/var/run/secrets/postern/token")  # of a pod, projected for this gateway's audience
_GITHUB_URL, _GITHUB_TOKEN = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
_MAX_BYTES = 64 * 1024
_DEADLINE, _TRIES = 20.0, 3
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Where the token is: `file`, or the environment variable `variable`; else what the program's surroundings
    offer."""

    file: Path | None = None
    variable: str | None = None


def find_token(
    environ: Mapping[str, str],
    source: TokenSource,
    audience: str,
    *,
    mounted: Path = MOUNTED,
    sleep: Callable[[float], None] = time.sleep,
) -> Secret:
    """Return the token. Raises Unauthenticated where there is none, Unavailable, Invalid."""
    if source.file is not None:
        return _read(source.file)
    if source.variable is not None:
        if not environ.get(source.variable):
            raise Unauthenticated(
                f"the environment variable {source.variable} is not set, or empty; `--token-env` names another"
            )
        return _require_jwt(environ[source.variable], source.variable)
    if environ.get(VARIABLE):
        return _require_jwt(environ[VARIABLE], VARIABLE)
    if environ.get(_GITHUB_URL) and environ.get(_GITHUB_TOKEN):
        return _request_at_github(environ[_GITHUB_URL], Secret(environ[_GITHUB_TOKEN]), audience, sleep)
    if mounted.exists():
        return _read(mounted)
    if environ.get("GITHUB_ACTIONS"):
        raise Unauthenticated("this GitHub job cannot request a token; give it `permissions: id-token: write`")
    raise Unauthenticated(
        f"no token was found: neither {VARIABLE} (GitLab), nor {_GITHUB_URL} (GitHub), nor {mounted} (Kubernetes) is "
        "there; give one with `--token-file` or `--token-env`"
    )


def _read(file: Path) -> Secret:
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_BYTES)
        return _require_jwt(content.decode("ascii"), str(file))
    except (OSError, UnicodeError) as error:
        raise Unauthenticated(f"the token in {file} cannot be read: {error}; check `--token-file`") from None


def _require_jwt(text: str, where: str) -> Secret:
    token = text.strip()
    if token.count(".") != 2 or not token.isascii() or any(character.isspace() for character in token):
        raise Invalid(f"{where} does not contain a signed token (JWT)")
    return Secret(token)


def _request_at_github(url: str, bearer: Secret, audience: str, sleep: Callable[[float], None]) -> Secret:
    """Request a token of this job (docs.github.com, "OpenID Connect reference")."""
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise Invalid(f"{_GITHUB_URL} is not an https address")
    headers = {"Authorization": f"Bearer {bearer.reveal()}", "Accept": "application/json"}
    problem = ""
    for attempt in range(_TRIES):
        if attempt:
            sleep(2.0**attempt)
        try:
            answer = httpx.get(
                httpx.URL(url).copy_merge_params({"audience": audience}), headers=headers, timeout=_DEADLINE
            )
        except httpx.HTTPError as error:
            problem = str(error) or type(error).__name__
            continue
        if answer.is_success:
            return _require_jwt(_value(answer), "the answer of GitHub")
        problem = f"it answered {answer.status_code}"
        if answer.status_code < 500:
            break
    raise Unavailable(f"GitHub gave this job no token: {problem}; check its `permissions: id-token: write`")


def _value(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["value"])
    except (ValueError, KeyError, TypeError):
        raise Unavailable("the answer of GitHub contains no token") from None

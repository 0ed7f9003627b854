from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.clouds import GoogleDouble

from postern.errors import Unavailable
from postern.integrations.secrets.gcp import GoogleSecrets

pytestmark = pytest.mark.ci

VALUE = "correct horse"
KEPT = {
    "projects/shop-prod/secrets/db/versions/latest": b'{"password": "correct horse"}',
    "projects/shop-prod/secrets/db/versions/3": b"the third",
    "projects/other/secrets/db/versions/latest": b"of another project",
    "projects/shop-prod/secrets/binary/versions/latest": b"\xff\xfe",
    "projects/shop-prod/secrets/huge/versions/latest": b"x" * 300_000,
}


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleDouble]:
    double = GoogleDouble(KEPT)
    with double.serve():
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(double.key_file(tmp_path)))
        monkeypatch.delenv("GOOGLE_CLOUD_PROJECT", raising=False)
        yield double


def fetch(google: GoogleDouble, name: str, key: str = "", environ: dict[str, str] | None = None) -> str:
    return asyncio.run(GoogleSecrets(environ or {}, endpoint=google.url).fetch(name)).value(key).reveal()


def test_secret_is_found_in_own_and_other_projects_and_versions(google: GoogleDouble) -> None:
    assert fetch(google, "db", "password") == VALUE
    assert fetch(google, "db/versions/3") == "the third"
    assert fetch(google, "projects/other/secrets/db") == "of another project"
    assert fetch(google, "db", environ={"GOOGLE_CLOUD_PROJECT": "other"}) == "of another project"


def test_one_token_serves_concurrent_requests(google: GoogleDouble) -> None:
    async def run() -> None:
        source = GoogleSecrets({}, endpoint=google.url)
        await asyncio.gather(*(source.fetch("db") for _ in range(5)))

    asyncio.run(run())
    assert [asked.path for asked in google.asked].count("/token") == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none", "NOT_FOUND"),
        ("forbidden", "PERMISSION_DENIED"),
        ("binary", "not text"),
        ("huge", "larger than"),
        ("../../x", "is named SECRET"),
        ("db?alt=media", "is named SECRET"),
        ("projects/p/locations/l/secrets/s", "is named SECRET"),
    ],
)
def test_secret_that_cannot_be_read_is_a_clear_error(google: GoogleDouble, name: str, reason: str) -> None:
    with pytest.raises(Unavailable, match=reason) as caught:
        fetch(google, name)
    assert "planted" not in caught.value.message


def test_missing_credentials_or_token_are_reported(
    google: GoogleDouble, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = GoogleDouble({})
    other.url = google.url  # whose key the token's endpoint does not know
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(other.key_file(tmp_path)))
    with pytest.raises(Unavailable, match="issued no token to the agent: RefreshError"):
        fetch(google, "db")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(Unavailable, match="no Google credentials"):
        fetch(google, "db")

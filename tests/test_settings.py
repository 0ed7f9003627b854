from __future__ import annotations

from pathlib import Path

import pytest

from postern import settings
from postern.errors import Misconfigured
from postern.settings import Settings


def test_flags_win_over_environment_over_defaults() -> None:
    environ = {"POSTERN_HOME": "/data", "POSTERN_API_PORT": "1000", "POSTERN_DEMO_PORT": "2000"}
    loaded = settings.load(environ, api_port=3000, demo_port=None)
    assert (loaded.home, loaded.api_port, loaded.demo_port, loaded.postgres_port) == (Path("/data"), 3000, 2000, 7432)


def test_a_child_that_is_given_the_environment_has_the_same_settings() -> None:
    given = Settings(home=Path("/data"), demo=False, idle_timeout=1.5, workers=3, host="::1", database_url="sqlite://")
    assert settings.load(given.environment()) == given


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [("POSTERN_API_PORT", "many", "valid int"), ("POSTERN_DEMO", "perhaps", "yes or no")],
)
def test_a_wrong_value_is_named(name: str, value: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=rf"{name}: '{value}' is not.*{why}"):
        settings.load({name: value})


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({}, "http://localhost:7480"),
        ({"host": "0.0.0.0", "public_host": "db.example.com"}, "https://db.example.com:7480"),
        ({"host": "2001:db8::1", "api_port": 443}, "https://[2001:db8::1]:443"),
    ],
)
def test_plain_http_is_for_loopback_only(changes: dict[str, object], url: str) -> None:
    assert settings.load({"POSTERN_HOME": "/data"}, **changes).api_url == url

"""`postern config check`, `show` and `example`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.certificates import issue

from postern.cli.main import cli
from postern.errors import Misconfigured
from postern.settings import AgentSettings, Settings
from postern.settings_values import variable_of
from postern.wiring.host import config_checks

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty folder, with the environment and the text of the configuration file."""
    monkeypatch.chdir(tmp_path)

    def run_one(*arguments: str, file: str = "", environ: Mapping[str, str] | None = None) -> Result:
        Path("postern.toml").write_text(file)
        Path("postern.toml").chmod(0o600)
        variables = {"POSTERN_CONFIG": "postern.toml", "POSTERN_HOME": str(tmp_path / "home"), **(environ or {})}
        return CliRunner().invoke(cli, ["config", *arguments], env=variables)

    return run_one


def problems(result: Result) -> dict[str, str]:
    answer = json.loads(result.stdout)
    assert result.exit_code == (2 if answer["problems"] else 0)
    return {problem["setting"]: problem["message"] for problem in answer["problems"]}


def test_valid_configuration(run: Run) -> None:
    result = run("check", file='workers = 2\n[oidc]\nscopes = ["openid"]\n')
    assert (result.exit_code, result.stdout) == (0, "The configuration is valid (postern.toml).\n")
    assert not Path("home").exists()


def test_all_problems_are_shown_at_once_with_their_places(run: Run) -> None:
    result = run(
        *("check", "--json"),
        file='api_prt = 1\nworkers = 0\nmysql_port = 7432\nauth_method = "oidc"\nsink_networks = "x"\n'
        'database_url = "oracle://h"\nrecordings_url = "ftp://x"\nmetrics_token = "short"\nmaster_key = "x"\n'
        'log_file = "/nope/log"\nanchor_webhook = "http://x"\nkey = "x"\nagent_policy = "/nope"\n'
        'runbook_schemes = ["gopher"]\ntrusted_proxies = "x"\n[tls]\nca = "/nope"\n',
        environ={"POSTERN_DIAL_TIMEOUT": "soon"},
    )
    assert problems(result).keys() == {
        *("api_prt", "workers", "mysql_port", "oidc_issuer", "sink_networks", "database_url", "recordings_url"),
        *("metrics_token", "master_key", "log_file", "anchor_webhook", "key", "agent_policy", "runbook_schemes"),
        *("trusted_proxies", "tls_ca", "dial_timeout"),
    }
    assert problems(result)["mysql_port"] == (
        "postern.toml:3: POSTERN_MYSQL_PORT: port 7432 is also that of POSTERN_POSTGRES_PORT; choose different ones"
    )
    assert problems(result)["dial_timeout"].startswith("POSTERN_DIAL_TIMEOUT: 'soon' is not a valid duration")


@pytest.mark.parametrize(
    ("file", "setting", "why"),
    [
        ('[tls]\ncert = "server.crt"', "tls_cert", "must be set together"),
        ('[tls]\ncert = "server.crt"\nkey = "nope"', "tls_cert", "No such file"),
        ('[tls]\ncert = "server.crt"\nkey = "other.key"', "tls_cert", "belong together"),
        ('[tls]\nca = "server.key"', "tls_ca", "contains no certificate"),
        ('[acme]\ndirectory = "https://acme.example/dir"', "acme_accept_terms", "read the terms of service"),
        (
            '[acme]\ndirectory = "https://acme.example/dir"\naccept_terms = true',
            "acme_domains",
            "are empty; set one of them",
        ),
        (
            '[acme]\ndirectory = "https://acme.example/dir"\naccept_terms = true\ndomains = ["a.example.com"]\n'
            '[tls]\ncert = "server.crt"\nkey = "server.key"',
            "acme_directory",
            "are both set",
        ),
        (
            'public_host = "a.example.com"\napi_port = 80\n[acme]\ndirectory = "https://acme.example/dir"\n'
            "accept_terms = true",
            "acme_http_port",
            "port 80 is also that of POSTERN_API_PORT",
        ),
        ('auth_method = "saml"\nsaml_metadata_url = "x"', "saml_metadata_url", "."),
        ("watchdog_timeout = 2", "watchdog_timeout", "set at least 5"),
        ('home = "/' + "x" * 120 + '"', "home", "too long for a socket"),
    ],
)
def test_problems_of_certificates_and_others(run: Run, file: str, setting: str, why: str) -> None:
    made = issue("localhost")
    Path("server.crt").write_bytes(made.certificate)
    Path("server.key").write_bytes(made.key)
    Path("other.key").write_bytes(issue("localhost").key)
    environ = {"POSTERN_HOME": ""} if setting == "home" else {}
    found = problems(run("check", "--json", file=file, environ=environ))
    assert found.keys() == {setting}
    assert why in found[setting]


BAD = (
    "[",
    "://",
    "https://[",
    "https://h:x",
    "x" * 5_000,
    "\0",
    "file:///\0",
    "é",
    "sqlite:///",
    "grpcs://[",
    "env:",
    "file:",
)


@pytest.mark.parametrize("kind", [Settings, AgentSettings])
def test_no_value_of_any_setting_breaks_the_check(kind: type, run: Run) -> None:
    acme = {"POSTERN_ACME_DIRECTORY": "https://acme.example/d", "POSTERN_ACME_ACCEPT_TERMS": "yes"}
    base = {**acme, "POSTERN_OIDC_ISSUER": "https://a.example", "POSTERN_PUBLIC_HOST": "a.example.com"}
    for name in kind.__dataclass_fields__:  # type: ignore[attr-defined]
        for value in BAD:
            with suppress(Misconfigured):
                config_checks.read({**base, variable_of(name): value}, {})


def test_file_that_cannot_be_read_is_a_problem(run: Run) -> None:
    assert "it is not TOML" in problems(run("check", "--json", file="="))["config"]
    assert run("show", file="=").exit_code == 1


def test_options_of_the_gateway_count(run: Run) -> None:
    assert "workers" in problems(run("check", "--json", "--workers", "0"))
    assert problems(run("check", "--json", "--workers", "3", file="workers = 0")) == {}


def shown(result: Result) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(result.stdout)}


def test_each_value_is_shown_with_its_source_and_no_secret(run: Run) -> None:
    Path("token").write_text("hunter2-from-a-file\n")
    rows = shown(
        run(
            *("show", "--json", "--idle-timeout", "10m"),
            file='public_host = "db.example.com"\ndatabase_url = "postgresql://u:hunter2@db/n?password=hunter2"\n'
            'key = "grpcs://edge:hunter2@x:1"\noidc_client_secret = "hunter2"\nmax_duration = "8h"\n',
            environ={"POSTERN_METRICS_TOKEN_FILE": "token", "POSTERN_API_PORT": "8080"},
        )
    )
    sources = {name: " ".join(row["source"].values()).strip() for name, row in rows.items()}
    assert sources["public_host"] == "file postern.toml:1"
    assert sources["idle_timeout"] == "flag --idle-timeout"
    assert sources["api_port"] == "environment POSTERN_API_PORT"
    assert sources["metrics_token"] == "environment POSTERN_METRICS_TOKEN_FILE=token"
    assert sources["workers"] == "default"
    assert (rows["idle_timeout"]["value"], rows["max_duration"]["value"]) == (600, 28_800)
    assert rows["database_url"]["value"] == "postgresql://***@db/n?***"
    assert rows["key"]["value"] == rows["oidc_client_secret"]["value"] == rows["metrics_token"]["value"] == "***"
    assert rows["anchor_webhook_secret"]["value"] == ""
    assert set(Settings.__dataclass_fields__) | {"key", "agent_policy", "agent_grace"} == set(rows)
    assert "hunter2" not in json.dumps(rows)


def test_show_is_a_table_and_names_what_is_wrong(run: Run) -> None:
    result = run("show", file="workers = 0\n")
    assert "api_port\t7480\tdefault\n" in result.stdout
    assert (result.exit_code, "workers: 0 is out of range" in result.stderr) == (2, True)


def test_example_is_a_valid_file(run: Run) -> None:
    for arguments in (("example",), ("example", "--all")):
        text = run(*arguments).stdout
        assert problems(run("check", "--json", file=text)) == {}
        assert text.startswith("# Configuration of Postern.")

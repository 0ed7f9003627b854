"""Secrets are planted in every way that a connection can have them; then everything is searched for them."""

from __future__ import annotations

import base64
import os
import re
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from tests.support.agents import AgentProcess, enrolled
from tests.support.aws import SecretsManager, secrets_manager
from tests.support.planted import in_export, in_files, in_processes, spellings
from tests.support.postgres import PostgresServer, need_server
from tests.support.processes import descendants
from tests.support.promises import wait_until
from tests.support.running import Gateway
from tests.support.vault import VaultDouble

from postern.agent.secret_files import PREFIX
from postern.domain.secret import Secret
from postern.domain.targets.agent import AgentKey

pytestmark = pytest.mark.slow

# One user of the target for each place that a password is kept in; the connections are called the same.
KEPT = ("value", "cloud", "vault", "variable")
HBA = ["host all postgres 127.0.0.1/32 trust", "host all all 127.0.0.1/32 scram-sha-256"]


def planted(what: str) -> str:
    """With characters that quoting and escaping change."""
    return f"planted {what}/{uuid4().hex}+&"


@dataclass
class Site:
    """A gateway with all that it refers to, whose secrets its own agent has, or one that runs `apart`. `passwords` are
    those of KEPT; `others` are secrets of any other kind."""

    gateway: Gateway
    target: PostgresServer
    manager: SecretsManager
    is_apart: bool
    agent: AgentProcess | None = None
    key: str = ""  # of the agent that runs apart
    environment: dict[str, str] = field(default_factory=dict)  # of the agent, whichever it is
    passwords: dict[str, str] = field(default_factory=lambda: {name: planted(name) for name in KEPT})
    others: dict[str, str] = field(default_factory=dict)
    token: str = ""

    def start(self) -> None:
        """The agent sees its environment, and the gateway nothing of it, unless that is the agent."""
        self.gateway.environment |= {"POSTERN_DEMO": "no", "POSTERN_LOG_LEVEL": "debug"}
        runtime = self.gateway.folder / "runtime"
        runtime.mkdir(mode=0o700)
        self.environment |= {"POSTERN_LOG_LEVEL": "debug", "XDG_RUNTIME_DIR": str(runtime)}
        if not self.is_apart:
            self.gateway.environment |= self.environment
        self.gateway.start()
        if self.is_apart:
            self.key = enrolled(self.gateway, "apart")
            self.others["agent-key"] = AgentKey.read(Secret(self.key)).secret.reveal()
            self.start_agent()

    def start_agent(self) -> None:
        self.agent = AgentProcess(self.key, self.gateway.folder, environment=self.environment)
        self.agent.until_it_serves()

    def stop(self) -> None:
        if self.agent is not None:
            self.agent.stop()
        self.gateway.remove()

    @property
    def holder(self) -> int:
        """The process that resolves references and has the files."""
        if self.agent is not None:
            return self.agent.process.pid
        [worker] = self.gateway.processes("worker")
        return worker

    @property
    def folders(self) -> list[Path]:
        """Of files with secrets."""
        return list((self.gateway.folder / "runtime").glob(f"{PREFIX}*"))

    def api(self) -> httpx.Client:
        """Logged in as the first administrator."""
        told = self.gateway.told
        if not self.token:
            login = {"email": told["admin_email"], "password": told["admin_password"]}
            self.token = httpx.post(f"{told['api_url']}/api/localauth/login", json=login).headers["Token"]
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=told["api_url"], timeout=30, headers=headers)

    def connect(self, name: str, **secret: str) -> None:
        """Makes a connection to the target; values that are no reference are encoded."""
        with self.api() as api:
            modes = ("access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema")
            values = {
                "envvar_HOST": "127.0.0.1",
                "envvar_PORT": str(self.target.port),
                "envvar_DB": "postgres",
            } | secret
            given = {key.replace("_", ":", 1): as_stored(value) for key, value in values.items()}
            answer = api.post(
                "/api/connections",
                json={
                    **dict.fromkeys(modes, "enabled"),
                    "name": name,
                    "type": "database",
                    "subtype": "postgres",
                    "agent_id": api.get(f"/api/agents/{'apart' if self.is_apart else 'embedded'}").json()["id"],
                    "secret": given,
                },
            )
            assert answer.status_code == 201, answer.text

    def open(self, name: str) -> psycopg.Connection[tuple[Any, ...]]:
        with self.api() as api:
            issued = api.post(f"/api/connections/{name}/credentials", json={}).json()
        login = {"user": issued["username"], "password": issued["password"]}
        where = {"host": issued["host"], "port": issued["port"], "dbname": "postgres"}
        return psycopg.connect(**login, **where, autocommit=True, connect_timeout=60)

    def execute(self, name: str) -> dict[str, Any]:
        with self.api() as api:
            body = {"connection": name, "script": "select 'it ran'"}
            found: dict[str, Any] = api.post("/api/sessions", json=body).json()
            return found

    @property
    def secrets(self) -> dict[str, str]:
        return self.passwords | self.others


def as_stored(value: str) -> str:
    return value if value.startswith("_") else base64.b64encode(value.encode()).decode()


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["own", "apart"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    need_server()
    with ExitStack() as stack:
        manager = stack.enter_context(secrets_manager())
        target = PostgresServer(hba=HBA)
        target.start()
        stack.callback(target.stop)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="postern-"))
        site = Site(Gateway(Path(folder)), target, manager, request.param)
        site.others |= {
            name: planted(name) for name in ("file", "cloud-file", "aws-key", "vault-token", "wrong", "text")
        }
        double = VaultDouble(kept={"kv2/db": {"password": site.passwords["vault"]}})
        double.tokens = {site.others["vault-token"].replace(" ", "-"): float("inf")}
        site.others["vault-token"] = next(iter(double.tokens))
        vault = stack.enter_context(double.serve())
        prepare(site, vault)
        stack.callback(site.stop)
        site.start()
        make_connections(site)
        yield site


def prepare(site: Site, vault: str) -> None:
    manager = site.manager
    manager.keep("prod/db", {"password": site.passwords["cloud"]})
    manager.keep("prod/file", site.others["cloud-file"])
    with psycopg.connect(site.target.dsn(), autocommit=True) as admin:
        for name, password in site.passwords.items():
            admin.execute(f"create user by_{name} password '{password}'")
    escaped = site.passwords["variable"]
    site.environment |= manager.environment | {
        "AWS_SECRET_ACCESS_KEY": site.others["aws-key"],
        "VAULT_ADDR": vault,
        "VAULT_TOKEN": site.others["vault-token"],
        "SHOP_JSON": f'{{"password": "{escaped}"}}',
        "SHOP_TEXT": site.others["text"],
    }


def make_connections(site: Site) -> None:
    files = {"filesystem_KEY": site.others["file"], "filesystem_CERT": "_aws:prod/file:"}
    passwords = {
        "value": site.passwords["value"],
        "cloud": "_cloudprov:prod/db:password",
        "vault": "_vaultkv2:kv2/db:password",
        "variable": "_envjson:SHOP_JSON:password",
    }
    for name, password in passwords.items():
        site.connect(name, envvar_USER=f"by_{name}", envvar_PASS=password, **files)
    failing = {
        "wrong-password": site.others["wrong"],
        "no-key": "_aws:prod/db:none",
        "no-json": "_aws:prod/file:password",
        "no-secret": "_aws:prod/none:password",
        "no-variable": "_envjson:NONE:password",
        "no-object": "_envjson:SHOP_TEXT:password",
        "no-path": "_vaultkv2:kv2/none:password",
        "not-allowed": "_vaultkv1:auth/token/lookup-self:id",
        "no-setting": "_azure:db:password",
    }
    for name, password in failing.items():
        site.connect(name, envvar_USER="by_value", envvar_PASS=password, **files)


@pytest.mark.parametrize("name", KEPT)
def test_session_gets_its_secrets_and_their_files_are_deleted_with_it(site: Site, name: str) -> None:
    with site.open(name) as session:
        assert session.execute("select current_user").fetchone() == (f"by_{name}",)
        [folder] = [found for found in site.folders if list(found.glob("*/KEY"))]
        [key], [cert] = folder.glob("*/KEY"), folder.glob("*/CERT")
        assert key.read_text() == site.others["file"]
        assert cert.read_text() == site.others["cloud-file"]
        for path, mode in ((key, 0o600), (cert, 0o600), (key.parent, 0o700), (folder, 0o700)):
            assert stat.S_IMODE(path.stat().st_mode) == mode
    wait_until(lambda: not list(folder.glob("*")))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("wrong-password", "did not accept the gateway's own login"),
        ("no-key", "_aws:prod/db:none cannot be resolved: it has no key 'none'"),
        ("no-json", "_aws:prod/file:password cannot be resolved: it is not a JSON object, so it has no keys"),
        ("no-secret", "_aws:prod/none:password cannot be resolved: AWS Secrets Manager answered ResourceNotFound"),
        ("no-variable", "_envjson:NONE:password cannot be resolved: the agent's environment has no 'NONE'"),
        ("no-object", "_envjson:SHOP_TEXT:password cannot be resolved: it is not a JSON object, so it has no keys"),
        ("no-path", "_vaultkv2:kv2/none:password cannot be resolved: Vault has nothing at this path"),
        ("not-allowed", "connections cannot refer to paths below"),
        ("no-setting", "_azure:db:password cannot be resolved: AZURE_KEYVAULT_URL"),
    ],
)
def test_failed_secret_reference_is_a_clear_error_without_a_session(site: Site, name: str, reason: str) -> None:
    with pytest.raises(psycopg.OperationalError) as caught:
        site.open(name)
    assert reason in str(caught.value)
    assert not is_in(str(caught.value).encode(), site)
    wait_until(lambda: not [found for folder in site.folders for found in folder.glob("*/KEY")])


def test_attack_killed_agent_leaves_no_secret_file_behind(site: Site) -> None:
    session = site.open("value")
    session.execute("select 1")
    [folder] = [found for found in site.folders if list(found.glob("*/KEY"))]
    os.kill(site.holder, signal.SIGKILL)
    if site.agent is not None:
        site.agent.stop()
        site.start_agent()  # a gateway's own is started again by itself
    wait_until(lambda: not folder.exists(), timeout=60)
    session.close()
    wait_until(lambda: serves(site, "value"), timeout=60)


def test_attack_planted_secrets_are_found_nowhere(site: Site) -> None:
    for name in (*KEPT, "wrong-password", "no-json"):
        site.execute(name)
    open_sessions = [site.open(name) for name in KEPT]
    for session in open_sessions:
        session.execute("select 1")
    processes = {**in_processes("cmdline"), **in_processes("environ", but=family(site))}
    answers = in_answers(site)
    for session in open_sessions:
        session.close()
    wait_until(lambda: not site.gateway.sessions("--status", "open"), timeout=60)
    local = [site.gateway.folder / name for name in ("spool", "sealed")]
    wait_until(lambda: not [path for folder in local for path in folder.rglob("*.rec*")], timeout=60)
    everything = processes | answers | in_files(site.gateway.folder) | in_export(site.gateway)
    found = [f"{what} in {where}" for where, content in everything.items() for what in is_in(content, site)]
    assert not found
    # The search would find what is there:
    assert any(where.startswith("/api") and b'"variable"' in content for where, content in everything.items())
    agents = r"/agent-\d+\.log$" if site.is_apart else r"/log$"
    there = ((r"\.db", b"no-object"), (r"\.rec", b"it ran"), (r"cmdline", b"worker"), (agents, b"no-json"))
    for kind, text in there:
        assert any(re.search(kind, where) and text in content for where, content in everything.items()), kind
    assert is_in(f"x{base64.b64encode(b'1' + site.others['file'].encode()).decode()}".encode(), site) == ["file"]


def test_stopped_agent_leaves_no_secret_folder(site: Site) -> None:
    """This is the last test of the file, because it stops the gateway."""
    session = site.open("cloud")
    session.execute("select 1")
    [folder] = [found for found in site.folders if list(found.glob("*/KEY"))]
    if site.agent is not None:
        site.agent.process.terminate()
    site.gateway.stop(signal.SIGTERM, timeout=60)
    if site.agent is not None:
        assert site.agent.process.wait(60) == 0
    assert not folder.exists()
    session.close()


def serves(site: Site, name: str) -> bool:
    try:
        site.open(name).close()
    except psycopg.OperationalError:  # what was killed is not back yet
        return False
    return True


def is_in(content: bytes, site: Site) -> list[str]:
    return [what for what, secret in site.secrets.items() if any(one in content for one in spellings(secret))]


def family(site: Site) -> set[int]:
    """The processes that were given what SHOP_JSON and the others hold by who started them, in their environment, and
    this one, which planted all. A gateway whose agent runs apart has none of it."""
    holder = site.gateway.process if site.agent is None else site.agent.process
    assert holder is not None
    return {os.getpid(), holder.pid, *descendants(holder.pid)}


def in_answers(site: Site) -> dict[str, bytes]:
    """What an administrator is answered on every route that is read."""
    found = {}
    with site.api() as api:
        fill = {name: fillings(api, name) for name in ("connections", "sessions", "users", "agents", "audit/logs")}
        for path in api.get("/api/openapi.json").json()["paths"].items():
            route, methods = path
            if "get" in methods and not route.endswith("/stream"):
                for url in urls(route, fill):
                    answer = api.get(url)
                    assert answer.status_code < 500, url
                    found[url] = answer.content
        for session in fill["sessions"]():
            for query in ("expand=event_stream&expand=session_input", "extension=json", "extension=csv"):
                url = f"/api/sessions/{session}?{query}"
                found[url] = api.get(url).content
    assert len(found) > 60
    return found


def fillings(api: httpx.Client, name: str) -> Callable[[], list[str]]:
    def ids() -> list[str]:
        rows = api.get(f"/api/{name}", params={"limit": 100}).json()
        return [str(row["id"]) for row in (rows["data"] if isinstance(rows, dict) else rows)]

    return ids


def urls(route: str, fill: dict[str, Callable[[], list[str]]]) -> list[str]:
    """A route once for each object that there is."""
    parameter = re.search(r"\{[^}]+\}", route)
    if parameter is None:
        return [route]
    name = route[: parameter.start()].removeprefix("/api/").rstrip("/")
    return [route[: parameter.start()] + one + route[parameter.end() :] for one in fill.get(name, lambda: ["none"])()]

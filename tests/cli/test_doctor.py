"""`postern doctor` against a whole gateway, and against set-ups that are broken on purpose."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from tests.support.running import Gateway, started

from postern.cli.doctor import clock, finding, of_agent, of_client, of_gateway, open_files, sockets
from postern.cli.doctor.finding import FindingState, ok
from postern.cli.doctor.sockets import ProbeAddress
from postern.cli.login.profile import Profile
from postern.cli.main import cli
from postern.client.client_http import Http
from postern.integrations.acme.acme_renewal import AcmeState, write_state
from postern.settings import Settings
from postern.transport import certificates
from postern.wiring import masters_wiring
from postern.wiring.host import checks as wiring_checks

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    with started() as gateway:
        yield gateway


def asked(
    gateway: Gateway, *arguments: str, patience: float = 15.0, **environment: str
) -> tuple[int, dict[str, dict[str, Any]]]:
    """`patience`: seconds for one socket; more than they are worth to a person, as the machine may be busy."""
    before = dict(gateway.environment)
    gateway.environment |= environment
    try:
        with pytest.MonkeyPatch.context() as patch:
            for module in (of_agent, of_client, sockets):
                patch.setattr(module, "PATIENCE", patience)
            result = gateway.run("doctor", "--json", *arguments)
    finally:
        gateway.environment = before
    shown = json.loads(result.stdout)
    for one in shown:
        assert one["what"]
        assert one["state"] == "ok" or (one["why"] and one["do"]), one
    return result.returncode, {f"{one['check']}" + ("" if one["state"] == "ok" else "!"): one for one in shown}


def test_a_whole_set_up_is_well(running: Gateway) -> None:
    code, found = asked(running)
    assert code == 0, found
    named = {"profile", "gateway", "clock", "token", "version", "tunnel port", "control port", "local port", "proxies"}
    assert set(found) == named | {"agents"}
    code, found = asked(running, "--gateway")
    assert code == 0, found
    assert {"data folder", "disk", "store", "master key", "certificate"} <= {name.rstrip("!") for name in found}
    assert "has this version's schema" in found["store"]["what"]
    assert found["agents"]["what"] == "all are connected"


def test_open_files_of_a_running_gateway_are_shown(running: Gateway) -> None:
    _, found = asked(running, "--gateway")
    assert re.fullmatch(r"\w+ has \d+ of \d+ open, closest to its limit", found["open files"]["what"])


@pytest.mark.parametrize(("hard", "name"), [(1024, "open files!"), (1 << 20, "open files")])
def test_low_limit_of_open_files_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard: int, name: str
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, hard))
    found = finding.run({"open files": lambda: open_files.check_hard_limit("the gateway is started")})
    assert (found[0].state is FindingState.OK) == (name == "open files")
    assert str(hard) in found[0].what


def test_process_near_its_limit_of_open_files_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring_checks, "open_files", lambda _: {"api": (50, 20_000), "w1": (19_000, 20_000)})
    found = of_gateway._open_files(Settings(home=tmp_path), running=True)
    assert [one.state for one in found] == [FindingState.WARNING]
    assert "w1 has 19000 of 20000 open" in found[0].what
    assert "LimitNOFILE" in found[0].do


def test_agent_that_is_offline_is_a_warning_with_its_connections(running: Gateway) -> None:
    assert running.run("admin", "agents", "create", "afar").returncode == 0
    target = ("--env", "HOST=db.example.com", "--env", "USER=app")
    assert running.run("connections", "create", "far-away", "--agent", "afar", *target).returncode == 0
    for flags in ((), ("--gateway",)):
        result = running.run("doctor", "--json", *flags)
        told = [one for one in json.loads(result.stdout) if one["check"] == "agents" and "'afar'" in one["what"]]
        assert (result.returncode, [one["state"] for one in told]) == (0, ["warning"]), result.stdout
        assert told[0]["why"] == "these connections cannot be used: far-away"
        assert "postern agent" in told[0]["do"]
    assert running.run("connections", "delete", "far-away", "--yes").returncode == 0
    assert running.run("admin", "agents", "delete", "afar", "--yes").returncode == 0


@pytest.mark.parametrize("file", sorted(Path(of_client.__file__).parent.glob("*.py")), ids=lambda file: file.stem)
def test_advice_that_ends_sessions_says_so(file: Path) -> None:
    """Every text of the doctor that has people restart a gateway, or renew the key of an agent."""
    texts = [text for text in _texts(file) if re.search(r"\brestart|renew-key|: a start migrates", text)]
    assert [text for text in texts if not re.search(r"\{RESTART\}|ends (running|the) sessions", text)] == []


def _texts(file: Path) -> list[str]:
    """Return the texts of a module as they are written; a text in several literals is one."""
    tree = ast.parse(file.read_text())
    whole = [one for one in ast.walk(tree) if isinstance(one, ast.JoinedStr)]
    parts = {id(part) for one in whole for part in ast.walk(one) if part is not one}
    plain = [one for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return [ast.unparse(one) for one in (*whole, *plain) if id(one) not in parts]


def test_it_is_readable(running: Gateway) -> None:
    result = running.run("doctor")
    assert result.stdout.startswith("ok     profile")


def test_an_agent_with_a_good_key_and_one_with_an_old_one(running: Gateway, tmp_path: Path) -> None:
    made = json.loads(running.run("admin", "agents", "create", "edge", "--json").stdout)
    policy = tmp_path / "policy.toml"
    policy.write_text("targets = [")
    code, found = asked(running, "--agent", POSTERN_KEY=made["key"])
    assert (code, set(found)) == (
        0,
        {"key", "control port", "certificate", "accepted", "tunnel port", "clock", "policy", "open files"},
    )
    code, found = asked(running, "--agent", POSTERN_KEY=made["key"], POSTERN_AGENT_POLICY=str(policy))
    assert (code, "policy!" in found) == (1, True)
    assert running.run("admin", "agents", "renew-key", "edge", "--yes").returncode == 0
    code, found = asked(running, "--agent", POSTERN_KEY=made["key"])
    assert code == 1
    assert "not known here" in found["accepted!"]["what"]
    assert "renew-key" in found["accepted!"]["do"]


def test_key_of_an_agent_in_a_file(running: Gateway, tmp_path: Path) -> None:
    made = json.loads(running.run("admin", "agents", "create", "by-file", "--json").stdout)
    key, config = tmp_path / "key", tmp_path / "postern.toml"
    key.write_text(made["key"] + "\n")
    config.write_text(f'key_file = "{key}"\n')
    sources: tuple[dict[str, Any], ...] = ({"POSTERN_KEY_FILE": str(key)}, {"POSTERN_CONFIG": str(config)})
    for variables in sources:
        code, found = asked(running, "--agent", **variables)
        assert (code, "agent 'by-file' of" in found["key"]["what"]) == (0, True)


@pytest.mark.parametrize(
    ("domain", "names", "is_known", "state", "what"),
    [
        ("localhost", ["localhost"], False, "ok", "below localhost"),
        ("apps.example.com", ["localhost"], True, "warning", "is not valid for *.apps.example.com"),
        ("apps.example.com", ["*.apps.example.com"], True, "ok", "apps.example.com is in DNS"),
        ("apps.example.com", ["*.apps.example.com"], False, "warning", "postern-doctor.apps.example.com is not known"),
        ("not a domain", ["localhost"], True, "wrong", "POSTERN_HTTPPROXY_DOMAIN"),
    ],
)
def test_hosts_of_applications(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    domain: str,
    names: list[str],
    is_known: bool,
    state: str,
    what: str,
) -> None:
    files = certificates.ensure(tmp_path / "files", names)
    settings = Settings(home=tmp_path, httpproxy_domain=domain, tls_cert=str(files.certificate), tls_key=str(files.key))

    def resolve(host: str, port: object) -> list[object]:
        assert host == "postern-doctor.apps.example.com"
        if not is_known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    [found] = of_gateway._applications(settings)
    assert (found.state, what in found.what) == (state, True)


def certificate_finding(settings: Settings) -> finding.DoctorFinding:
    [found] = of_gateway._certificate(settings)
    return found


@pytest.mark.parametrize(("days", "state"), [(30, "ok"), (13, "warning"), (-1, "wrong")])
@pytest.mark.parametrize("source", ["own", "yours", "acme"])
def test_certificate_that_expires_soon_and_how_each_kind_is_renewed(
    source: str, days: int, state: str, tmp_path: Path
) -> None:
    folder = tmp_path / "tls" / ("acme" if source == "acme" else "")
    made = datetime.now(UTC) - certificates.SERVER_LIFE + timedelta(days=days + 1, hours=1)
    files = certificates.ensure(folder, ["gateway.example.com"], now=made)
    if source == "acme":
        (folder / "server.pem").write_bytes(files.certificate.read_bytes() + files.key.read_bytes())
    changes: dict[str, Any] = {
        "own": {},
        "yours": {"tls_cert": str(files.certificate), "tls_key": str(files.key)},
        "acme": {"acme_directory": "https://acme.example/dir"},
    }[source]
    means = {"own": "a running gateway renews it", "yours": "replace the files", "acme": "the ACME server reports"}
    found = certificate_finding(Settings(home=tmp_path, **changes))
    assert (found.state, means[source] in found.do) == (state, state != "ok")


def test_order_at_the_acme_server_that_failed_is_a_warning_with_its_reason(tmp_path: Path) -> None:
    certificates.ensure(tmp_path / "tls", ["localhost"])
    (tmp_path / "run").mkdir()
    write_state(tmp_path / "run" / "acme-state.json", AcmeState().after_failure("no such name", datetime.now(UTC)))
    found = certificate_finding(Settings(home=tmp_path, acme_directory="https://acme.example/dir"))
    assert found.state == "warning"
    assert "no such name (attempt 1; the next one is at " in found.what
    assert certificate_finding(Settings(home=tmp_path)).state == "ok"


def test_an_agent_that_declares_its_connection_is_asked_for_none(running: Gateway) -> None:
    made = json.loads(running.run("admin", "agents", "create", "web", "--mode", "embedded", "--json").stdout)
    code, found = asked(running, "--agent", POSTERN_KEY=made["key"])
    assert (code, set(found)) == (0, {"key", "control port", "certificate", "accepted", "policy", "open files"})
    assert "postern run" in found["key"]["what"]
    assert "waits for the declaration of `postern run`" in found["accepted"]["what"]
    assert running.run("admin", "agents", "renew-key", "web", "--yes").returncode == 0
    code, found = asked(running, "--agent", POSTERN_KEY=made["key"])
    assert (code, "not known here" in found["accepted!"]["what"]) == (1, True)


def test_an_agent_without_a_key_or_with_nonsense(running: Gateway) -> None:
    code, found = asked(running, "--agent")
    assert (code, found["key!"]["what"]) == (1, "POSTERN_KEY is not set")
    secret = "grpcs://edge:xagt-short@localhost:1"
    code, found = asked(running, "--agent", POSTERN_KEY=secret)
    assert code == 1
    assert "xagt-short" not in json.dumps(found)


def test_an_agent_that_trusts_another_ca(running: Gateway, tmp_path: Path) -> None:
    made = json.loads(running.run("admin", "agents", "create", "other", "--json").stdout)
    key = made["key"].split("&ca=")[0].split("?ca=")[0]
    code, found = asked(running, "--agent", POSTERN_KEY=key)
    assert code == 1
    assert "is not trusted" in found["control port!"]["what"]


def test_a_token_that_ended_and_a_profile_open_to_others(running: Gateway) -> None:
    url = running.told["api_url"]
    code, found = asked(running, POSTERN_API_URL=url, POSTERN_TOKEN="made-up")
    assert (code, found["token!"]["do"]) == (1, f"postern login {url}")
    file = running.folder / "config" / "postern" / "config.json"
    file.chmod(0o644)
    try:
        code, found = asked(running)
        assert (code, found["profile!"]["do"]) == (1, f"chmod 600 {file}")
    finally:
        file.chmod(0o600)


def test_a_gateway_that_is_away_and_one_that_never_answers(running: Gateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        code, found = asked(running, patience=2.0, POSTERN_API_URL=url, POSTERN_TOKEN="made-up")
        assert (code, "did not answer in time" in found["gateway!"]["what"]) == (1, True)
    code, found = asked(running, POSTERN_API_URL=url, POSTERN_TOKEN="made-up")
    assert (code, "cannot be reached" in found["gateway!"]["what"]) == (1, True)


def test_a_local_port_that_is_taken_and_a_proxy(running: Gateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, found = asked(running, "--port", str(port), ALL_PROXY="", NO_PROXY="*", HTTPS_PROXY="http://127.0.0.1:9")
    assert (code, "local port!" in found, found["proxies!"]["state"]) == (1, True, "warning")


def test_nobody_logged_in(tmp_path: Path) -> None:
    ours = {name: None for name in os.environ if name.startswith("POSTERN_")}
    result = CliRunner().invoke(cli, ["doctor"], env={**ours, "XDG_CONFIG_HOME": str(tmp_path)})
    assert result.exit_code == 1
    assert "do:  postern login" in result.output


@pytest.mark.parametrize(("seconds", "state"), [(0, "ok"), (29, "ok"), (-29, "ok"), (40, "wrong"), (-40, "wrong")])
def test_clocks_that_differ(seconds: int, state: str) -> None:
    now = time.time()
    date = datetime.fromtimestamp(now + seconds, UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    [found] = clock.compare_clocks(date, now, now)
    assert found.state == state
    assert state == "ok" or ("behind" if seconds > 0 else "ahead of") in found.what


@pytest.mark.parametrize("seconds", [90, -90])
def test_the_clock_of_an_agents_machine_and_of_this_one(
    running: Gateway, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    name = f"late{seconds + 90}"
    made = json.loads(running.run("admin", "agents", "create", name, "--json").stdout)
    skewed = SimpleNamespace(time=lambda: time.time() + seconds, monotonic=time.monotonic)
    monkeypatch.setattr(of_agent, "time", skewed)
    monkeypatch.setattr(of_client, "time", skewed)
    for arguments, environment in (((), {}), (("--agent",), {"POSTERN_KEY": made["key"]})):
        code, found = asked(running, *arguments, **environment)
        bad = [name for name in found if name.endswith("!") and name != "agents!"]  # whose agent was never started
        assert (code, bad) == (1, ["clock!"]), found
        said = re.search(r"clock is (\d+) s (ahead of|behind) the gateway's", found["clock!"]["what"])
        assert said is not None
        assert 86 <= int(said[1]) <= 94
        assert said[2] == ("ahead of" if seconds > 0 else "behind")


@contextmanager
def answering(context: ssl.SSLContext | None) -> Iterator[int]:
    """A port that takes connections, with TLS where there is a context."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                taken, _ = listening.accept()
                with contextlib.suppress(OSError), taken:
                    if context is None:
                        taken.sendall(b"220 ready\r\n" * 10)
                    else:
                        context.wrap_socket(taken, server_side=True).close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join(5)


@pytest.mark.parametrize(
    ("names", "days", "does"),
    [
        (["localhost"], 0, None),
        (["localhost"], 30, "timedatectl"),
        (["localhost"], -4000, "timedatectl"),
        (["elsewhere"], 0, "POSTERN_PUBLIC_HOST=localhost"),
    ],
)
def test_why_a_certificate_is_not_trusted(tmp_path: Path, names: list[str], days: int, does: str | None) -> None:
    certificates.ensure(tmp_path, names, now=datetime.now(UTC) + timedelta(days=days))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    with answering(context) as port:
        [found] = sockets.reachable("port", ProbeAddress("localhost", port, True, (tmp_path / "ca.crt").read_text()))
        [stranger] = sockets.reachable("port", ProbeAddress("localhost", port, True, trust="renew the key"))
    assert found.state is (FindingState.OK if does is None else FindingState.WRONG), found
    assert does is None or does in found.do
    if does is None:
        assert (stranger.state, stranger.do) == (FindingState.WRONG, "renew the key")


def test_why_a_port_cannot_be_reached() -> None:
    with answering(None) as port:
        [found] = sockets.reachable("port", ProbeAddress("localhost", port, True))
        assert "does not use TLS" in found.what
    [found] = sockets.reachable("port", ProbeAddress("127.0.0.1", port, True))
    assert "no program listens there" in found.what
    assert "POSTERN_HOST" in found.do
    [found] = sockets.reachable("port", ProbeAddress("no-such-host.invalid", 1, True))
    assert "the name cannot be resolved" in found.what
    [found] = sockets.report_unreachable("port", ProbeAddress("gateway.example", 7443, True), TimeoutError("timed out"))
    assert "allow port 7443 in the firewall" in found.do


def test_an_agent_whose_control_port_is_blocked_is_not_told_to_renew_its_key(running: Gateway) -> None:
    made = json.loads(running.run("admin", "agents", "create", "blocked", "--json").stdout)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        key = re.sub(r":\d+\?", f":{silent.getsockname()[1]}?", made["key"])
        code, found = asked(running, "--agent", patience=5.0, POSTERN_KEY=key)
    assert code == 1
    assert "no answer in time" in found["control port!"]["what"]
    assert "allow port" in found["control port!"]["do"]
    assert "renew-key" not in found["accepted!"]["do"]


def test_a_gateway_whose_certificate_is_not_trusted(running: Gateway, tmp_path: Path) -> None:
    certificates.ensure(tmp_path, ["localhost"], now=datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    with answering(context) as port:
        url = f"https://localhost:{port}"
        code, found = asked(running, POSTERN_API_URL=url, POSTERN_TOKEN="made-up")
    assert code == 1
    assert found["gateway!"]["do"].startswith(f"postern login {url} --ca FILE")
    assert found["certificate!"]["do"] == "postern login URL --ca FILE"


def test_a_gateway_that_is_talked_to_in_clear() -> None:
    used = Profile("http://gateway.invalid:7480", None, "", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Http, "send", lambda *_: SimpleNamespace(headers={"Date": formatdate(usegmt=True)}))
        first, second = of_client._gateway(used)
    assert (first.state, second.state) == (FindingState.WARNING, FindingState.OK)
    assert "not encrypted" in first.what


def gateway_findings(home: Path, **more: str) -> tuple[int, dict[str, dict[str, Any]]]:
    ours = {name: None for name in os.environ if name.startswith("POSTERN_")}
    ports = {f"POSTERN_{name}_PORT": "0" for name in ("API", "POSTGRES", "TUNNEL", "CONTROL")}
    arguments = ["doctor", "--gateway", "--json", "--home", str(home)]
    result = CliRunner().invoke(cli, arguments, env={**ours, **ports, **more})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, {one["check"]: one for one in json.loads(result.stdout) if one["state"] != "ok"}


def test_a_gateway_without_its_folder(tmp_path: Path) -> None:
    code, found = gateway_findings(tmp_path / "none")
    assert (code, set(found)) == (1, {"data folder"})


def test_where_recordings_lie_and_under_which_key(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    said = f"the folder {tmp_path / 'recordings'} answers; recordings are encrypted"
    assert [one.what for one in of_gateway._blob_store(settings)] == [said]
    assert not (tmp_path / "keys").exists(), "looking makes no key"
    key = masters_wiring.master(settings).id
    assert [one.what for one in of_gateway._blob_store(settings)] == [f"{said}, under the master key {key}"]


def test_a_broken_gateway(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "spool" / "w1").mkdir(parents=True)
    (home / "spool" / "w1" / "one.rec").write_bytes(b"")
    sealed = home / "sealed" / "2026" / "01" / f"{uuid4()}.000001.rec.zst"
    sealed.parent.mkdir(parents=True)
    sealed.write_bytes(b"")
    os.utime(sealed, (time.time() - 3601, time.time() - 3601))
    home.chmod(0o755)
    certificates.ensure(home / "tls", ["localhost"], now=datetime.now(UTC) - timedelta(days=4000))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, found = gateway_findings(
            home,
            POSTERN_API_PORT=str(taken.getsockname()[1]),
            POSTERN_RECORDING_LEAST_FREE=str(1 << 60),
            POSTERN_RECORDINGS_URL="s3://bucket?endpoint=http://127.0.0.1:1&region=eu-central-1",
            AWS_ACCESS_KEY_ID="test",
            AWS_SECRET_ACCESS_KEY="test",
        )
    assert code == 1
    wanted = {"data folder", "disk", "store", "master key", "certificate", "ports", "gateway", "spool"}
    assert set(found) == wanted | {"archiver", "blob store"}
    assert found["archiver"]["what"].startswith("1 sealed segments wait, the oldest for 60 minutes")
    assert found["blob store"]["what"].startswith("the blob store s3://bucket cannot be used")
    assert found["spool"]["what"].startswith("1 recordings are unfinished: spool/w1/one.rec")
    assert not (home / "postern.db").exists()
    assert not (home / "keys").exists()


def test_a_check_that_fails_or_hangs_is_a_finding() -> None:
    late = threading.Event()

    def hangs() -> list[finding.DoctorFinding]:
        late.wait(60)
        return ok("hangs", "late")

    def fails() -> list[finding.DoctorFinding]:
        raise ValueError("why")

    try:
        found = finding.run({"fails": fails, "well": lambda: ok("well", "yes"), "hangs": hangs}, deadline=2.0)
    finally:
        late.set()
    assert [(one.check, one.state) for one in found] == [
        ("fails", FindingState.WRONG),
        ("well", FindingState.OK),
        ("hangs", FindingState.WRONG),
    ]

"""Completion in real shells, with names of a real gateway."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.promises import wait_until
from tests.support.served import ANN, ROOT, Served

from postern.cli import completion
from postern.cli.main import cli

pytestmark = pytest.mark.ci

SOURCE = Path(__file__).resolve().parents[2] / "src"


def completed(gate: Served, line: str, **environment: str) -> list[str]:
    """What the command line answers a bash that asks for the last word of `line`."""
    words = line.split(" ")
    asked = {"_POSTERN_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    ours = {name: None for name in os.environ if name.startswith("POSTERN_")}
    result = CliRunner().invoke(cli, [], prog_name="postern", env={**ours, **gate.environment, **asked, **environment})
    assert result.stderr == ""
    return [answer.partition(",")[2] for answer in result.stdout.splitlines() if answer]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is just now."""
    monkeypatch.setattr(completion, "PATIENCE", 60.0)
    monkeypatch.setattr(completion, "KEPT", 3600.0)


@pytest.fixture
def known(gate: Served) -> Served:
    gate.log_in()
    agent = gate.run(gate.world.add_agent("edge"))
    for name in ("shop", "store", "other"):
        gate.run(gate.world.add_connection(name, agent=agent))
    return gate


def test_names_of_the_gateway(known: Served) -> None:
    assert completed(known, "postern connect s") == ["shop", "store"]
    assert completed(known, "postern connections update oth") == ["other"]
    assert completed(known, "postern admin agents drain e") == ["edge"]
    assert completed(known, "postern connections list --agent e") == ["edge"]
    assert completed(known, "postern admin users show ro") == [ROOT]


def test_whatever_is_named_is_completed(known: Served, tmp_path: Path) -> None:
    known.ok("admin", "groups", "create", "crew")
    known.ok("admin", "access-rules", "create", "crew-rule", "--group", "crew", "--connection", "shop")
    known.ok("admin", "review-rules", "create", "crew-pairs", "--reviewers", "crew", "--connection", "shop")
    known.ok("admin", "api-keys", "create", "crew-key", "--group", "crew")
    known.ok("admin", "service-accounts", "create", "crew-bot")
    known.ok("admin", "machines", "create", "crew-batch", "--connection", "shop")
    known.ok("connections", "update", "shop", "--tag", "crew=blue")
    (tmp_path / "rule.json").write_text(
        '{"name": "crew-rail", "input": {"rules": [{"type": "deny_words_list", "words": ["x"], "pattern_regex": ""}]}}'
    )
    rail = known.json("guardrails", "create", str(tmp_path / "rule.json"))["id"]
    wanted = {
        "connections test sh": "shop",
        "connections schema sh": "shop",
        "connections delete sh": "shop",
        "connections list --tag cr": "crew=blue",
        "connections list --resource sh": "shop",
        "connections update shop --agent e": "edge",
        f"connections create x --guardrail {rail[:8]}": rail,
        "connections create x --redact email": "EMAIL_ADDRESS",
        "sessions list --connection sh": "shop",
        "sessions list --user ro": ROOT,
        "credentials issue sh": "shop",
        "access sh": "shop",
        "access shop --user ro": ROOT,
        "exec sh": "shop",
        "admin agents renew-key e": "edge",
        "admin agents delete e": "edge",
        "admin groups delete cr": "crew",
        "admin users list --group cr": "crew",
        "admin access-rules update crew-rule --tag cr": "crew=blue",
        "admin review-rules create x --force cr": "crew",
        "admin api-keys revoke cr": "crew-key",
        "admin api-keys create x --service-account cr": "crew-bot",
        "admin machines rotate cr": "crew-batch",
        "admin machines create x --connection sh": "shop",
        "admin resources show sh": "shop",
        "admin features disable script": "script-runs",
        "admin logins list --user ro": ROOT,
        "profiles use def": "default",
        "proxy-manager --js": "--json",
        "doctor --ag": "--agent",
    }
    found = {line: completed(known, f"postern {line}") for line in wanted}
    assert found == {line: [name] for line, name in wanted.items()}


def test_in_bash_itself(known: Served, tmp_path: Path) -> None:
    """What it replies to the tabulator, by the script that it was given."""
    program = tmp_path / "postern"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m postern "$@"\n')
    program.chmod(0o755)
    ask = (
        'eval "$(postern completion bash)"; COMP_WORDS=(postern connections test s); COMP_CWORD=3; '
        '_postern_completion postern; printf "%s\\n" "${COMPREPLY[@]}"; complete -p postern'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, **known.environment, "PATH": path, "PYTHONPATH": str(SOURCE)}

    def replied() -> list[str]:
        """Nothing when the gateway does not answer within a second, as on a machine that is busy."""
        done = subprocess.run(
            ["bash", "-c", ask], env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        return done.stdout.splitlines() if done.stdout.startswith("s") else []

    lines = wait_until(replied, 120)
    assert lines[:2] == ["shop", "store"]
    assert "_postern_completion postern" in lines[2]


def test_commands_and_options(known: Served) -> None:
    assert completed(known, "postern conn") == ["connect", "connections"]
    assert "agents" in completed(known, "postern admin ")
    assert completed(known, "postern connect --nat") == ["--native"]


def test_names_are_kept_for_a_moment_and_for_one_login_only(known: Served) -> None:
    assert completed(known, "postern connect sh") == ["shop"]
    known.run(known.services.connections.remove(known.root, "shop"))
    assert completed(known, "postern connect sh") == ["shop"]
    [kept] = (known.folder / "postern" / "completions").iterdir()
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    known.log_in(ANN)
    assert completed(known, "postern connect sh") == []
    os.utime(kept, (time.time() - completion.KEPT - 1,) * 2)
    known.log_in(ROOT)
    assert completed(known, "postern connect sh") == []
    assert not kept.exists()


def test_a_long_list_is_searched(known: Served) -> None:
    agent = known.run(known.world.add_agent("many"))
    for number in range(100):
        known.run(known.world.add_connection(f"a-{number:03}", agent=agent))
    assert completed(known, "postern connect sto") == ["store"]


def test_silence_on_failure(gate: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed(gate, "postern connect s") == []
    monkeypatch.setattr(completion, "PATIENCE", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert completed(gate, "postern connect s", POSTERN_API_URL=url, POSTERN_TOKEN="x") == []
    gate.file.parent.mkdir(parents=True, exist_ok=True)
    gate.file.write_text("not json")
    assert completed(gate, "postern connect s") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_reads_what_it_is_given(shell: str, tmp_path: Path) -> None:
    printed = CliRunner().invoke(cli, ["completion", shell])
    assert printed.exit_code == 0
    assert "_POSTERN_COMPLETE" in printed.stdout
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "completion"
    file.write_text(printed.stdout)
    subprocess.run([found, "-n", str(file)], check=True, timeout=60)


def test_completing_loads_nothing_heavy(gate: Served) -> None:
    """What a shell asks at every key, apart from names, must be quick."""
    code = (
        "import sys\nfrom postern.cli.main import cli\n"
        "try:\n    cli(prog_name='postern')\nexcept SystemExit:\n    pass\n"
        "heavy = [name for name in ('httpx', 'sqlalchemy', 'grpc', 'fastapi', 'cryptography') if name in sys.modules]\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    asked = {"_POSTERN_COMPLETE": "bash_complete", "COMP_WORDS": "postern conn", "COMP_CWORD": "1"}
    environment = {**os.environ, **gate.environment, **asked, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "plain,connect\nplain,connections\n"), done.stderr

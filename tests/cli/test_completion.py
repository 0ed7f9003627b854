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
from tests.support.served import ANN, ROOT, Served

from postern.cli import completion
from postern.cli.main import cli

SOURCE = Path(__file__).resolve().parents[2] / "src"


def completed(gate: Served, line: str, **environment: str) -> list[str]:
    """What the command line answers a bash that asks for the last word of `line`."""
    words = line.split(" ")
    asked = {"_POSTERN_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    ours = {name: None for name in os.environ if name.startswith("POSTERN_")}
    result = CliRunner().invoke(cli, [], prog_name="postern", env={**ours, **gate.environment, **asked, **environment})
    assert result.stderr == ""
    return [answer.partition(",")[2] for answer in result.stdout.splitlines() if answer]


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
    assert completed(known, "postern admin users get ro") == [ROOT]


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


def test_silence_on_failure(gate: Served) -> None:
    assert completed(gate, "postern connect s") == []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        assert completed(gate, "postern connect s", POSTERN_API_URL=url, POSTERN_TOKEN="x") == []
        assert time.monotonic() - began < 5
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
    subprocess.run([found, "-n", str(file)], check=True, timeout=10)


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
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "plain,connect\nplain,connections\n"), done.stderr

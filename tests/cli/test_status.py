"""Status messages: tags at a terminal, the plain form for programs, commands that can be pasted."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.support.served import Served

from postern.cli import status
from postern.cli.lazy import CommandFailure
from postern.cli.main import cli
from postern.cli.status import Status, report, report_done, report_note, with_program_name
from postern.errors import NotFound

CLI = Path(status.__file__).parent


def sit_at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make standard output and standard error terminals; in a test, since pytest replaces them for each phase."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)


@pytest.mark.parametrize(
    ("state", "tagged", "plain"),
    [
        (Status.OK, "[ok] hello\n", "hello\n"),
        (Status.INFO, "[info] hello\n", "postern: hello\n"),
        (Status.WARNING, "[warn] hello\n", "Warning: hello\n"),
        (Status.ERROR, "[error] hello\n", "postern: hello\n"),
    ],
)
def test_status_has_a_tag_at_a_terminal_only(
    state: Status, tagged: str, plain: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    report(state, "hello")
    assert capsys.readouterr() == ("", plain)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    report(state, "hello")
    assert capsys.readouterr() == ("", tagged)


def test_done_is_on_standard_error_at_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sit_at_terminal(monkeypatch)
    report_done("Created shop.")
    report_note("valid for a day")
    assert capsys.readouterr() == ("", "[ok] Created shop.\n[info] valid for a day\n")


def test_done_is_on_standard_output_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    report_done("Created shop.")
    report_note("valid for a day")
    assert capsys.readouterr() == ("Created shop.\n", "valid for a day\n")


def test_errors_and_usage_errors_have_the_same_tag(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sit_at_terminal(monkeypatch)
    CommandFailure(NotFound("there is no connection 'x'")).show()
    with pytest.raises(click.UsageError) as caught:
        cli.main(["conections"], prog_name="postern", standalone_mode=False)
    caught.value.show()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[error] there is no connection 'x'; `postern connections` lists the existing ones"
    assert lines[-1].startswith("[error] No such command 'conections'. (Did you mean one of:")


def test_command_of_a_group_below_is_suggested() -> None:
    result = CliRunner().invoke(cli, ["users", "create", "eve@example.com", "--role", "auditor"])
    assert result.exit_code == 2
    assert result.stderr.endswith("Error: No such command 'users'. Did you mean 'admin users'?\n")


def test_group_without_a_command_prints_its_help() -> None:
    result = CliRunner().invoke(cli, [])
    assert result.exit_code == 2
    assert "Try it on this machine:" in result.output
    assert "[error]" not in result.output


@pytest.mark.parametrize(
    ("text", "pasteable"),
    [
        ("`postern sessions` lists the existing ones", "`/opt/p/postern sessions` lists the existing ones"),
        ("There are none yet: postern connections create --help", "There are none yet: /opt/p/postern connections"),
        ("POSTERN_KEY=x postern agent", "POSTERN_KEY=x /opt/p/postern agent"),
        ("Try 'postern --help' for help.", "Try '/opt/p/postern --help' for help."),
        ("run /opt/p/postern setup", "run /opt/p/postern setup"),
        ("python -m postern setup", "python -m postern setup"),
        ("postern: it failed", "postern: it failed"),
        ("install postern[presidio]", "install postern[presidio]"),
    ],
)
def test_commands_in_messages_name_the_program_that_runs(
    text: str, pasteable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "program_name", lambda: "/opt/p/postern")
    assert with_program_name(text).startswith(pasteable)
    assert with_program_name(with_program_name(text)) == with_program_name(text)


def test_all_modules_print_status_messages_in_one_way() -> None:
    """A message that a module prefixes by itself has neither a tag nor a command that can be pasted."""
    own = re.compile(r'[bf]*"(?:\\r\\n)?(?:postern|Warning|Error): ')
    assert [path.name for path in CLI.rglob("*.py") if path.name != "status.py" and own.search(path.read_text())] == []


def test_real_terminal_shows_tags_and_pipes_do_not(gate: Served) -> None:
    gate.log_in()
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("POSTERN_")}
    environment = {**kept, **gate.environment, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-m", "postern", "connections", "show", "nope"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        check=False,
    )
    os.close(theirs)
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert (done.returncode, done.stdout) == (5, "")
    program = f"{sys.executable} -m postern"
    assert shown == f"[error] there is no connection 'nope'; `{program} connections` lists the existing ones\r\n"

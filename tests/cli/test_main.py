from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from postern import __version__, errors
from postern.cli.lazy import CommandFailure, LazyGroup
from postern.cli.main import COMMANDS, cli
from postern.errors import PosternError

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def runner(tmp_path: Path) -> CliRunner:
    env = {"XDG_CONFIG_HOME": str(tmp_path), "POSTERN_API_URL": "", "POSTERN_TOKEN": ""}
    return CliRunner(env=env)


def leaves(group: click.Group = cli, *path: str) -> list[list[str]]:
    """Every command that can be typed, below its groups."""
    found = []
    context = click.Context(group)
    names = list(group.lazy) if isinstance(group, LazyGroup) else group.list_commands(context)
    for name in names:
        command = group.get_command(context, name)
        found.append([*path, name])
        if isinstance(command, click.Group):
            found += leaves(command, *path, name)
    return found


def talks(path: list[str]) -> bool:
    """Whether it is a command, not a group, that talks to a gateway."""
    command: click.Command | None = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    return COMMANDS[path[0]].profile and not isinstance(command, click.Group)


@pytest.mark.parametrize("path", leaves(), ids=" ".join)
def test_every_command_explains_itself(runner: CliRunner, path: list[str]) -> None:
    """What talks to a gateway takes a profile and can print JSON, too."""
    result = runner.invoke(cli, [*path, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith("Usage:")
    assert ("--profile NAME" in result.output) or not COMMANDS[path[0]].profile
    assert ("--json" in result.output) or not talks(path)


@pytest.mark.parametrize("name", [name for name, lazy in COMMANDS.items() if not lazy.hidden])
def test_the_list_knows_the_command_without_importing_it(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert command.help


def test_a_profile_that_is_no_name_is_refused(runner: CliRunner) -> None:
    result = runner.invoke(cli, ["--profile", "../other", "whoami"])
    assert result.exit_code == 1
    assert "is not a valid profile name" in result.output


def test_version(runner: CliRunner) -> None:
    assert runner.invoke(cli, ["version"]).output == f"postern {__version__}\n"
    assert runner.invoke(cli, ["--version"]).output == f"postern {__version__}\n"
    assert runner.invoke(cli, ["version", "--json"]).output == f'{{\n  "version": "{__version__}"\n}}\n'


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.Malformed, 1),
        (errors.Invalid, 1),
        (errors.Conflict, 1),
        (errors.Misconfigured, 1),
        (errors.Unauthenticated, 3),
        (errors.Denied, 4),
        (errors.NotFound, 5),
        (errors.Unavailable, 6),
        (errors.TooMany, 6),
    ],
)
def test_each_error_has_its_exit_code(kind: type[PosternError], code: int) -> None:
    assert CommandFailure(kind("why")).exit_code == code


def test_usage_errors_are_2(runner: CliRunner) -> None:
    assert runner.invoke(cli, ["connections", "create"]).exit_code == 2
    assert runner.invoke(cli, ["no-such-command"]).exit_code == 2


def test_who_is_not_logged_in_is_told_what_to_do(runner: CliRunner) -> None:
    result = runner.invoke(cli, ["sessions"])
    assert result.exit_code == 3
    assert result.output == "postern: you are not logged in; log in with `postern login`\n"


def test_who_is_not_logged_in_with_a_profile_is_told_which(runner: CliRunner) -> None:
    result = runner.invoke(cli, ["sessions", "--profile", "bob"])
    assert result.exit_code == 3
    assert result.output.endswith("the profile bob; log in with `postern login --profile bob`\n")


def test_an_error_cannot_steer_the_terminal(runner: CliRunner) -> None:
    assert CommandFailure(errors.NotFound("there is no \x1b[2Jthing")).message.startswith(r"there is no \x1b[2Jthing;")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (errors.NotFound("there is no connection 'x'"), "`postern connections` lists"),
        (errors.NotFound("there is no agent 'x'"), "`postern admin agents list` lists"),
        (errors.NotFound("gone"), "`postern --help`"),
        (errors.Denied("you may not"), "`postern whoami`"),
        (errors.Unavailable("the gateway at x cannot be reached"), "`postern doctor`"),
        (errors.Unauthenticated("you are not logged in"), "`postern login`"),
    ],
)
def test_errors_end_with_what_to_type(error: PosternError, says: str) -> None:
    assert says in CommandFailure(error).message


def test_an_error_that_says_what_to_type_is_left_alone() -> None:
    said = "there is no profile 'x'; `postern profiles` lists them"
    assert CommandFailure(errors.NotFound(said)).message == said


def test_it_starts_without_what_it_does_not_need() -> None:
    program = (
        "import sys\nfrom postern.cli.main import cli\n"
        "try: cli(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'httpx', 'asyncio', 'structlog', 'sqlalchemy', 'fastapi', 'cryptography', 'segno'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "postern sessions show ID" in done.stdout


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        (("conections",), "connections"),
        (("session",), "sessions"),
        (("admin", "user"), "users"),
        (("connections", "lst"), "list"),
        (("reviews", "aprove"), "approve"),
        (("connect", "--nativ"), "--native"),
        (("sessions", "list", "--sinse"), "--since"),
    ],
)
def test_mistyped_command_or_option_names_the_one_that_was_meant(
    runner: CliRunner, mistyped: tuple[str, ...], meant: str
) -> None:
    result = runner.invoke(cli, list(mistyped))
    assert result.exit_code == 2
    assert "Did you mean" in result.output
    assert meant in result.output


def test_hidden_command_is_not_suggested(runner: CliRunner) -> None:
    assert "archiver" not in runner.invoke(cli, ["archive"]).output.replace("'archive'", "")

"""Follows docs/how-to/add-a-protocol.md on a copy of the source: the protocol of tests/toy_protocol is added, keeps the
contracts of protocols, and serves a client through a gateway."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ci

ROOT = Path(__file__).resolve().parent.parent
TOY = ROOT / "tests" / "toy_protocol" / "pantry"
PAGE = (ROOT / "docs" / "how-to" / "add-a-protocol.md").read_text()
CHECKS = ("tests/toy_protocol/check_contracts.py", "tests/toy_protocol/check_gateway.py")


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def applied(text: str, diff: list[str]) -> str:
    """Return the text without the removed lines of the diff, and with its added lines where they stand in it."""
    lines = text.splitlines()
    place = -1
    for line in diff:
        if line.startswith("+"):
            place += 1
            lines.insert(place, line[1:])
        else:
            (place,) = (number for number, there in enumerate(lines) if there == line[1:])
            if line.startswith("-"):
                del lines[place]
                place -= 1
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with one more folder, and the page's change of the registry."""
    copy = tmp_path_factory.mktemp("tree")
    for folder in ("src", "tests", "docs"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "e2e"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    shutil.copytree(TOY, copy / "src" / "postern" / "protocols" / TOY.name)
    (change,) = blocks("diff")
    path, *diff = change.removeprefix("--- ").splitlines()
    (copy / path).write_text(applied((copy / path).read_text(), diff))
    return copy


def test_page_quotes_the_protocol_as_it_is() -> None:
    quoted = blocks("python")
    assert quoted
    for code in quoted:
        name, _, text = code.partition("\n")
        assert text in (TOY / name.removeprefix("# ")).read_text(), name


def run(tree: Path, *arguments: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=tree, env=kept, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]


@pytest.mark.parametrize(
    "tests",
    [*CHECKS, "tests/test_import_rules.py"],
    ids=["contracts", "gateway", "walls"],
)
def test_protocol_added_as_documented_works(tree: Path, tests: str) -> None:
    run(tree, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", "300", tests)


def test_protocol_added_as_documented_fits_what_the_agent_and_the_gateway_need(tree: Path) -> None:
    """Its spec and what that makes have the types that the rooms ask for."""
    run(
        tree,
        "mypy",
        "--cache-dir",
        "cache",
        "src/postern/protocols/pantry",
        *map(str, tree.glob("tests/toy_protocol/check*")),
    )

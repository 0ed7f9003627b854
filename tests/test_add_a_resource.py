"""Follows docs/how-to/add-a-resource.md on a copy of the source, where the tests of all resources must pass:
through the API on both engines, and through the command line."""

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
PAGE = (ROOT / "docs" / "how-to" / "add-a-resource.md").read_text()


def blocks(language: str) -> list[str]:
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def added(text: str, diff: list[str]) -> str:
    """Return the text with each added line of the diff below the line that precedes it there."""
    lines = text.splitlines()
    place = -1
    for line in diff:
        if line.startswith("+"):
            place += 1
            lines.insert(place, line[1:])
        else:
            (place,) = (number for number, there in enumerate(lines) if there == line[1:])
    return "\n".join(lines) + "\n"


def apply(tree: Path) -> None:
    """Write the files of the page, and register the resource."""
    for code in blocks("python"):
        path = code.splitlines()[0].removeprefix("# ")
        assert not (tree / path).exists(), path
        (tree / path).write_text(code)
    for block in blocks("diff"):
        for part in re.split(r"^--- ", block, flags=re.MULTILINE)[1:]:
            path, *diff = part.splitlines()
            (tree / path).write_text(added((tree / path).read_text(), diff))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("tree")
    for folder in ("src", "tests", "docs"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "e2e"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    apply(copy)
    return copy


@pytest.mark.parametrize(
    "tests",
    [
        ("tests/contracts/test_resources.py", "-k", "[contact] or [contact- or -contact]"),
        ("tests/cli/test_resource_groups.py", "-k", "contact or every_group"),
        ("tests/test_import_rules.py",),
    ],
    ids=["contract", "commands", "walls"],
)
def test_resource_added_as_documented_passes_the_tests_of_all_resources(tree: Path, tests: tuple[str, ...]) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", "300", *tests],
        cwd=tree,
        env=kept,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]

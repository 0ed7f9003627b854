"""A copy of the source that a how-to's changes are applied to, and programs that run in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class HowTo:
    """A page of docs/how-to. Blocks of Python begin with the path of their file, and those of changes with `--- `."""

    name: str

    def blocks(self, language: str) -> list[str]:
        text = (ROOT / "docs" / "how-to" / f"{self.name}.md").read_text()
        return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)

    def files(self) -> list[tuple[str, str]]:
        return [(code.splitlines()[0].removeprefix("# "), code) for code in self.blocks("python")]


def copy_of_source(to: Path, page: HowTo) -> Path:
    """Return the folder `to` with a copy of the source, in which the page's changes of files are made."""
    for folder in ("src", "tests", "docs"):
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__", "e2e"))
    shutil.copy(ROOT / "pyproject.toml", to)
    for block in page.blocks("diff"):
        for part in re.split(r"^--- ", block, flags=re.MULTILINE)[1:]:
            path, *diff = part.splitlines()
            (to / path).write_text(_applied((to / path).read_text(), diff))
    return to


def _applied(text: str, diff: list[str]) -> str:
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


def run_module(tree: Path, *arguments: str) -> None:
    """Run a module of Python there, as if nothing of this test run were set. It must succeed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", *arguments], cwd=tree, env=kept, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-5_000:] + done.stderr[-2_000:]


def run_tests(tree: Path, *arguments: str) -> None:
    run_module(tree, "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--timeout", "300", *arguments)

"""What is compiled: a class of a compiled module has no interpreted subclasses, which Python would refuse to make.
Where it allows them, these have no compiled ones: calls would reach the methods of the first class."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "postern"
HOT = re.findall(r'^    "([\w/]+\.py)",$', (ROOT / "setup.py").read_text(), re.MULTILINE)
OPEN = {"Protocol", "NamedTuple", "TypedDict"}  # their classes are not native


def classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]


def bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}


def is_native(node: ast.ClassDef) -> bool:
    decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
    return "allow_interpreted_subclasses" not in decorators and not bases(node) & OPEN


@pytest.mark.parametrize("name", HOT)
def test_compiled_module_exists(name: str) -> None:
    assert (SOURCE / name).is_file()


def test_no_interpreted_class_inherits_from_a_compiled_one() -> None:
    native = {node.name for name in HOT for node in classes(SOURCE / name) if is_native(node)}
    wrong = [
        f"{path.relative_to(SOURCE)}: {node.name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if str(path.relative_to(SOURCE)) not in HOT
        for node in classes(path)
        if bases(node) & native
    ]
    assert wrong == [], "list these modules in setup.py"


def test_no_compiled_class_inherits_from_a_compiled_one_by_an_interpreted_one() -> None:
    compiled = {node.name: node for name in HOT for node in classes(SOURCE / name)}
    files = [path for path in SOURCE.rglob("*.py") if str(path.relative_to(SOURCE)) not in HOT]
    interpreted = {node.name for path in files for node in classes(path) if bases(node) & compiled.keys()}
    wrong = [name for name, node in compiled.items() if bases(node) & interpreted]
    assert wrong == [], "list the modules of their bases in setup.py"

"""Prints the test files that a change is likely to affect: those that import a changed module, however indirectly, and
those that are named after it. Where there are none, all tests of its room. For parts of a named resource, also the
suite that holds all resources to one contract.

Modules that put everything together (`wiring`, bundles of services, the application of the API, the test gateway)
import all others: what reaches a test only through one of them is left out, and so are end-to-end tests. Continuous
integration runs them all.

    scripts/affected_tests.py [BASE]      changes since BASE, committed or not; HEAD where it is left out
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PUTS_TOGETHER = re.compile(
    r"postern\.(wiring|protocols\.registry$|store\.stores$|api\.application$|cli\.main$|services\.bundle$)"
    r"|postern\.services\..*_services$|tests\.support\.(world|served|gateway|stores|templates)$|tests\..*conftest$"
)

# What named resources are built with, and the suite that tries all of them: it reaches them through the above only.
SUITES = {
    "postern.store.sql.resource_table": "tests/contracts/test_resources.py",
    "postern.store.sql.rules.rule_table": "tests/contracts/test_resources.py",
    "postern.services.named_resources": "tests/contracts/test_resources.py",
    "postern.services.targets.connection_rules": "tests/contracts/test_resources.py",
    "postern.api.crud": "tests/contracts/test_resources.py",
    "postern.cli.resource_group": "tests/cli/test_resource_groups.py",
}
ROLE = re.compile(r"^sql_|_(routes|schemas|commands|admin|tables|ports|services)$")


def changed_files(base: str) -> list[str]:
    found: list[str] = []
    for command in (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True)
        found += done.stdout.splitlines()
    return found


def module_of(file: str) -> str:
    return file.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def tests_of(module: str, graph: grimp.ImportGraph, tests: set[str]) -> set[str]:
    is_known = module in graph.modules
    downstream = graph.find_downstream_modules(module) if is_known else set()
    used = graph.find_modules_directly_imported_by(module) if is_known else set()
    importing = {f"{name.replace('.', '/')}.py" for name in (module, *downstream)}
    noun = ROLE.sub("", module.rpartition(".")[2]).rstrip("s")
    named = {test for test in tests if re.match(rf"test_{noun}(s|_|\.)", Path(test).name)}
    suites = {suite for kit, suite in SUITES.items() if kit == module or kit in used}
    if found := tests & (importing | named):
        return found | suites
    room = module.split(".")[1]
    return {test for test in tests if test.startswith(f"tests/{room}/")} | suites


def affected(changed: list[str]) -> set[str]:
    graph = grimp.build_graph("postern", "tests", cache_dir=None)
    for module in graph.modules:
        if PUTS_TOGETHER.search(module):
            graph.remove_module(module)
    tests = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    tests = {test for test in tests if not test.startswith("tests/e2e/")}
    modules = {module_of(file) for file in changed if file.endswith(".py") and file.startswith(("src/", "tests/"))}
    return set().union(*(tests_of(module, graph, tests) for module in modules))


def main() -> None:
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    changed = changed_files(sys.argv[1] if len(sys.argv) > 1 else "HEAD")
    found = affected(changed) | {"tests/test_import_rules.py", "tests/test_docs.py"}
    sys.stdout.write(" ".join(sorted(found)) + "\n")


if __name__ == "__main__":
    main()

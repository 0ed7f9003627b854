"""Follows docs/how-to/add-a-protocol.md on a copy of the source: the protocol of tests/toy_protocol is added, keeps the
contracts of protocols, and serves a client through a gateway."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.changed_source import ROOT, HowTo, copy_of_source, run_module, run_tests

pytestmark = pytest.mark.ci

TOY = ROOT / "tests" / "toy_protocol" / "pantry"
PAGE = HowTo("add-a-protocol")
CHECKS = ("tests/toy_protocol/check_contracts.py", "tests/toy_protocol/check_gateway.py")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with one more folder, and the page's change of the registry."""
    copy = copy_of_source(tmp_path_factory.mktemp("tree"), PAGE)
    shutil.copytree(TOY, copy / "src" / "postern" / "protocols" / TOY.name)
    return copy


def test_page_quotes_the_protocol_as_it_is() -> None:
    quoted = PAGE.files()
    assert quoted
    for name, code in quoted:
        assert code.partition("\n")[2] in (TOY / name).read_text(), name


@pytest.mark.parametrize(
    "tests",
    [*CHECKS, "tests/test_import_rules.py"],
    ids=["contracts", "gateway", "walls"],
)
def test_protocol_added_as_documented_works(tree: Path, tests: str) -> None:
    run_tests(tree, tests)


@pytest.mark.slow
def test_protocol_added_as_documented_fits_what_the_agent_and_the_gateway_need(tree: Path) -> None:
    """Its spec and what that makes have the types that the rooms ask for."""
    # The cache of an earlier run of mypy saves checking the rest of the source again.
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", tree / "cache")
    checks = map(str, tree.glob("tests/toy_protocol/check*"))
    run_module(tree, "mypy", "--cache-dir", "cache", "src/postern/protocols/pantry", *checks)

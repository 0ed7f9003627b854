"""Follows docs/how-to/add-a-resource.md on a copy of the source, where the tests of all resources must pass:
through the API on both engines, and through the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.changed_source import HowTo, copy_of_source, run_tests

pytestmark = pytest.mark.ci

PAGE = HowTo("add-a-resource")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source with the page's files, in which the resource is registered."""
    copy = copy_of_source(tmp_path_factory.mktemp("tree"), PAGE)
    for path, code in PAGE.files():
        assert not (copy / path).exists(), path
        (copy / path).write_text(code)
    return copy


@pytest.mark.parametrize(
    "tests",
    [
        pytest.param(
            ("tests/contracts/test_resources.py", "-k", "[contact] or [contact- or -contact]"),
            marks=pytest.mark.slow,
        ),
        ("tests/cli/test_resource_groups.py", "-k", "contact or every_group"),
        pytest.param(("tests/cli/test_configuration_files.py", "-k", "sample or again"), marks=pytest.mark.slow),
        ("tests/test_import_rules.py",),
    ],
    ids=["contract", "commands", "files", "walls"],
)
def test_resource_added_as_documented_passes_the_tests_of_all_resources(tree: Path, tests: tuple[str, ...]) -> None:
    run_tests(tree, *tests)

"""The documentation says what the code does."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from scripts import generate_docs
from tests.support.features import ADVISORY, BLOCKED, COLUMNS, ENFORCED, HOLDS, NOT_YET, PARTLY, REJECTED, ROW_OF

from postern.cli.main import COMMANDS
from postern.domain.reviews.review import TRANSITIONS
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.targets.connection import SUBTYPES, protocol_of
from postern.settings import known_names
from postern.wiring.app import ENFORCEABLE

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def test_the_commands_page_is_up_to_date() -> None:
    assert generate_docs.CLI.read_text() == generate_docs.cli_page(), "run `make docs`"


def test_the_api_reference_is_up_to_date() -> None:
    assert generate_docs.API.read_text() == generate_docs.api_page(), "run `make docs`"


def test_the_information_types_are_up_to_date() -> None:
    assert generate_docs.TYPES.read_text() == generate_docs.types_page(), "run `make docs`"


def test_the_events_are_up_to_date() -> None:
    assert generate_docs.EVENTS.read_text() == generate_docs.events_page(), "run `make docs`"


def test_the_list_of_settings_is_up_to_date() -> None:
    page = generate_docs.OPERATIONS.read_text()
    assert page == generate_docs.operations_page(page), "run `make docs`"


def test_the_table_of_the_states_of_reviews_is_up_to_date() -> None:
    page = generate_docs.REVIEWS.read_text()
    assert page == generate_docs.reviews_page(page), "run `make docs`"


def test_the_facts_of_protocols_in_the_web_application_are_up_to_date() -> None:
    assert generate_docs.PROTOCOL_FACTS.read_text() == generate_docs.protocol_facts(), "run `make docs`"


def test_the_table_of_the_states_of_reviews_has_each_of_them_and_each_transition() -> None:
    table = generate_docs.states_table()
    assert all(f"`{status}`" in table for status in ReviewStatus)
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert sum(bool(cell.strip(" |")) for row in rows for cell in row[2:]) == len(TRANSITIONS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_into_the_repository_leads_somewhere(page: Path) -> None:
    text = page.read_text()
    links = re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)|^\[[^\]]+\]: ([^#:\s]+)(?:#(\S*))?$", text, re.MULTILINE)
    for target, anchor, other, its_anchor in links:
        leads = page.parent / (target or other) if target or other else page
        assert leads.exists(), f"{page.name} links to {target or other}"
        if name := anchor or its_anchor:
            assert name in _anchors(leads), f"{page.name} links to {leads.name}#{name}"


@cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_variables_and_make_targets_exist(page: Path) -> None:
    text = page.read_text()
    for command in re.findall(r"`postern ([a-z-]+)", text):
        assert command in COMMANDS, f"{page.name} names `postern {command}`"
    known = {f"POSTERN_{name.upper()}" for name in (*known_names(), "config")}
    known |= {
        "POSTERN_API_URL",
        "POSTERN_TOKEN",
        "POSTERN_PROFILE",
        "POSTERN_ID_TOKEN",
        "POSTERN_COMPILE",
        "POSTERN_WEB",
        "POSTERN_TEST_INSTALLED",
    }
    known |= {"POSTERN_TEST_VAULT", "POSTERN_TEST_VAULT_TOKEN"}
    known |= {f"POSTERN_{name}" for name in ("CONNECTION_NAME", "CONNECTION_TYPE", "SESSION_ID", "CLIENT_VERB")}
    known |= {"POSTERN_USER_EMAIL", "POSTERN_USER_ID", "POSTERN_HOOK_PAYLOAD"}
    for variable in re.findall(r"POSTERN_[A-Z_]+[A-Z]", text):
        assert variable in known, f"{page.name} names {variable}"
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"`make ([a-z-]+)", text):
        assert target in targets, f"{page.name} names `make {target}`"


def test_the_table_of_protocols_says_what_the_tests_of_features_hold_them_to() -> None:
    text = (ROOT / "README.md").read_text()
    section = text[text.index("## Protocol support") : text.index("## Comparison")]
    head, _, *rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    assert tuple(head) == COLUMNS
    assert [row[0] for row in rows] == list(HOLDS)
    words = re.compile(rf"\b({ENFORCED}|{ADVISORY}|{BLOCKED}|{REJECTED}|{NOT_YET})\b")
    for name, *cells in rows:
        plain = [cell.replace(PARTLY, f"{ENFORCED}, {ADVISORY}") for cell in cells]
        said = {column: frozenset(words.findall(cell)) for column, cell in zip(COLUMNS, plain, strict=True)}
        assert said == HOLDS[name], f"{name}: README and tests/support/features.py differ"
    notes = {int(number) for number in re.findall(r"^(\d+)\. ", section, re.MULTILINE)}
    assert {int(number) for row in rows for cell in row[1:] for number in re.findall(r"\((\d+)\)", cell)} == notes


def test_every_subtype_of_a_connection_has_a_row_that_says_whether_it_can_be_opened() -> None:
    assert ROW_OF.keys() == {subtype for kinds in SUBTYPES.values() for subtype in kinds}
    for subtype, row in ROW_OF.items():
        assert (HOLDS[row]["recording"] == {NOT_YET}) == (protocol_of(subtype, ()) not in ENFORCEABLE)


def test_the_page_about_protocols_names_every_contract_and_files_that_are_there() -> None:
    source, text = ROOT / "src" / "postern", (ROOT / "docs" / "how-to" / "add-a-protocol.md").read_text()
    support = ROOT / "tests" / "support" / "protocols"
    contracts = [name for file in support.glob("*.py") for name in re.findall(r"def (check_\w+)", file.read_text())]
    assert sorted(re.findall(r"`(?:\w+\.)?(check_\w+)`", text)) == sorted(contracts)
    for file in re.findall(r"`((?:\w+/)*\w+\.py)`", text.replace("NAME", "mysql")):
        example = ROOT / "tests" / "toy_protocol"
        places = (
            source,
            source / "protocols" / "mysql",
            ROOT,
            ROOT / "tests" / "protocols",
            example,
            example / "pantry",
        )
        assert any((place / file).exists() for place in places), file

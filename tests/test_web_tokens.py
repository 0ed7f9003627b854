"""The colours of the web application are readable: all pairs have the contrast that WCAG 2.2 AA asks for."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

WEB = Path(__file__).resolve().parents[1] / "web" / "src"
TOKENS = (WEB / "tokens.css").read_text()
HIGH_CONTRAST = re.search(r"@media \(prefers-contrast: more\) \{\n  :root \{(.*?)\n  \}", TOKENS, re.DOTALL)


def colours_in(sheet: str) -> dict[str, dict[str, str]]:
    """Return the colours that a sheet sets, by token and theme."""
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);", sheet)
    return {name: {"light": light, "dark": dark} for name, light, dark in pairs}


def high_contrast_colours() -> dict[str, dict[str, str]]:
    """Return the colours for users who prefer more contrast: what their block leaves out stays."""
    assert HIGH_CONTRAST is not None
    block = HIGH_CONTRAST[1]
    colours = COLOURS | colours_in(block)
    return colours | {name: colours[other] for name, other in re.findall(r"--([\w-]+): var\(--([\w-]+)\);", block)}


COLOURS = colours_in(TOKENS[: TOKENS.index("@media")])
MORE = high_contrast_colours()
GROUNDS = ("bg", "surface", "raised", "sunken")
STATES = ("ok", "held", "refused", "info", "masked")
TEXTS = [
    *product(("text", "text-2", "text-3", "accent", *STATES), GROUNDS),
    *((state, f"{state}-soft") for state in STATES),
    *(("text", f"{state}-soft") for state in STATES),
    ("on-accent", "accent"),
]
UNSAFE = r"dangerouslySetInnerHTML|\.innerHTML|\.outerHTML|insertAdjacentHTML|\beval\(|new Function"
CONTROLS = [*product(("border-strong", "accent"), GROUNDS)]
EDGES = [*CONTROLS, *product(("border",), GROUNDS)]  # with more contrast, each line is as strong as that of a control


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_computed_as_wcag_says() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXTS, ids="-on-".join)
def test_text_has_a_contrast_of_4_5(text: str, ground: str, theme: str) -> None:
    assert contrast(COLOURS[text][theme], COLOURS[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("control", "ground"), CONTROLS, ids="-on-".join)
def test_edges_of_controls_have_a_contrast_of_3(control: str, ground: str, theme: str) -> None:
    assert contrast(COLOURS[control][theme], COLOURS[ground][theme]) >= 3


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXTS, ids="-on-".join)
def test_text_has_a_contrast_of_7_where_users_prefer_more(text: str, ground: str, theme: str) -> None:
    assert contrast(MORE[text][theme], MORE[ground][theme]) >= 7


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("edge", "ground"), EDGES, ids="-on-".join)
def test_edges_have_a_contrast_of_4_5_where_users_prefer_more(edge: str, ground: str, theme: str) -> None:
    assert contrast(MORE[edge][theme], MORE[ground][theme]) >= 4.5


@pytest.mark.parametrize("sheet", sorted(WEB.rglob("*.css")), ids=lambda path: path.name)
def test_colours_are_in_the_token_file_only(sheet: Path) -> None:
    colours = re.findall(r"#[0-9a-fA-F]{3,8}\b|\brgba?\(|\bhsla?\(|\boklch\(", sheet.read_text())
    assert not colours or sheet.name == "tokens.css"


@pytest.mark.parametrize("source", sorted(WEB.rglob("*.ts*")), ids=lambda path: path.name)
def test_no_source_turns_text_into_html_or_code(source: Path) -> None:
    text = source.read_text()
    assert not re.search(
        r"dangerouslySetInnerHTML|\.innerHTML|\.outerHTML|insertAdjacentHTML|\beval\(|new Function", text
    )


@pytest.mark.parametrize("source", sorted((WEB / "screens").rglob("*.ts*")), ids=lambda path: path.name)
def test_screens_are_built_from_parts_and_import_no_other_screen(source: Path) -> None:
    """Except what belongs to the login, which the set-up page shares."""
    imported = re.findall(r'from "\.\./(\w[\w-]*)/', source.read_text())
    assert set(imported) <= {"login"}
    assert not set(imported) or source.parent.name == "setup"


@pytest.mark.parametrize("source", sorted((WEB / "engines").rglob("*.ts")), ids=lambda path: path.name)
def test_engines_know_neither_react_nor_the_api(source: Path) -> None:
    assert re.findall(r'from "(react|\.\./api)', source.read_text()) == []

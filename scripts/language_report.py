"""Count habits of language in the source and the documents, and draw sentences at random for a reader to judge.

`python scripts/language_report.py` prints the counts. With `--draw 40 --seed 1` it also prints 40 sentences, the same
number from each of README, documents, command-line help and errors, and 40 docstrings. The same seed on the same tree
draws the same sentences.
"""

from __future__ import annotations

import ast
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
GENERATED = ("cli.md", "api-reference.md", "events.md", "information-types.md")
WIDEST = 120

PREPOSITION = re.compile(
    r"(about|above|after|against|as|at|before|behind|below|beside|between|beyond|by|during|for|from|in|into|of|off|on|"
    r"onto|out|over|per|since|through|to|towards|under|until|upon|with|within|without)\b",
    re.IGNORECASE,
)
PARTICIPLE = re.compile(
    r"begun|borne|bought|bound|broken|brought|built|caught|chosen|done|drawn|driven|fed|felt|forgotten|found|given|gone|"
    r"grown|heard|held|hidden|kept|known|laid|led|left|lent|lost|made|meant|met|owed|paid|said|seen|sent|shown|spoken|"
    r"spent|stood|taken|taught|tell|thought|thrown|told|understood|won|worn|written|[a-z]+(?<!.e)(?<!b)ed"
)  # not feed, need, embed
WHO = re.compile(r"\bwho(?:ever)? (?!are you|is who)[a-z]+", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*`]*[A-Z`])")


def pages(root: Path) -> list[Path]:
    """Return the documents that people write, decision records included."""
    every = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    return [page for page in every if page.exists() and page.name not in GENERATED]


def prose(text: str) -> list[str]:
    """Return the paragraphs and list items of a Markdown text, without code, tables, headings and link targets."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(?:#| *\||    |\[[^\]]+\]: ).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)|\]\[[^\]]*\]", "]", text).translate({ord(mark): None for mark in "[]*"})
    blocks = re.split(r"\n\s*\n|\n(?= *(?:-|\d+\.) )", text)
    return [re.sub(r"^(?:-|\d+\.) ", "", " ".join(block.split())) for block in blocks if block.strip()]


def sentences(paragraphs: list[str]) -> list[str]:
    """Split paragraphs into sentences; what has fewer than three words is none."""
    parts = [part for paragraph in paragraphs for part in SENTENCE_END.split(paragraph)]
    return [part for part in parts if len(part.split()) >= 3]


def modules(root: Path) -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted((root / "src").rglob("*.py")):
        if not file.stem.endswith(("_pb2", "_pb2_grpc")):
            yield file, ast.parse(file.read_text())


def docstrings(tree: ast.Module) -> list[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    return [text for text in found if text]


def badly_named(tree: ast.Module) -> list[str]:
    """Return functions whose whole name is a participle or `tell`. A property can be an adjective."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    decorated = {function.name for function in functions if "property" in ast.dump(ast.List(function.decorator_list))}
    names = [function.name for function in functions if function.name not in decorated]
    return [name for name in names if PARTICIPLE.fullmatch(name.strip("_"))]


def errors(tree: ast.Module) -> list[str]:
    """Return the texts of what is raised, with `…` for values."""
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    texts = [_text(argument) for call in calls for argument in call.args]
    return [text for text in texts if len(text.split()) >= 3]


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def counts(root: Path) -> dict[str, int | float]:
    """Return what the report prints, by its name."""
    trees = [tree for _, tree in modules(root)]
    strings = [text for tree in trees for text in docstrings(tree)]
    texts = {page: page.read_text() for page in pages(root)}
    classes = Counter(
        node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef) and node.name[0] != "_"
    )
    lines = [line for text in texts.values() for line in text.splitlines() if len(line) > WIDEST]
    lengths = [
        len(one.split()) for page, text in texts.items() if "how-to" in page.parts for one in sentences(prose(text))
    ]
    return {
        "docstrings": len(strings),
        "`who <verb>` in docstrings": sum(len(WHO.findall(text)) for text in strings),
        "`who <verb>` in documents": sum(len(WHO.findall(" ".join(prose(text)))) for text in texts.values()),
        "docstrings that begin with a preposition": sum(bool(PREPOSITION.match(text)) for text in strings),
        "functions named by a participle or `tell`": sum(len(badly_named(tree)) for tree in trees),
        "public class names used more than once": sum(number > 1 for number in classes.values()),
        f"lines over {WIDEST} columns in documents": len(lines),
        "of these in tables": sum(line.lstrip().startswith("|") for line in lines),
        "words per sentence in how-tos, mean": round(sum(lengths) / max(len(lengths), 1), 1),
        "words of hand-written documents": sum(len(text.split()) for text in texts.values()),
    }


def help_texts() -> list[str]:
    """Return the help of every command and option, one paragraph each."""
    from postern.cli.main import cli

    found: list[str] = []
    waiting: list[click.Command] = [cli]
    while waiting:
        command = waiting.pop()
        found += re.split(r"\n\s*\n", command.help or "")
        found += [option.help or "" for option in command.params if isinstance(option, click.Option)]
        if isinstance(command, click.Group):
            context = click.Context(command)
            inner = [command.get_command(context, name) for name in command.list_commands(context)]
            waiting += [one for one in inner if one is not None and not one.hidden]
    return [" ".join(text.split()) for text in found if "\b" not in text]


def draw(root: Path, number: int, seed: int) -> Iterator[str]:
    """Yield a title before each group of sentences that were drawn."""
    chance = random.Random(seed)  # noqa: S311
    read = [page for page in pages(root) if page.name not in ("README.md", "CONTRIBUTING.md")]
    trees = [tree for _, tree in modules(root)]
    sources = {
        "README": sentences(prose((root / "README.md").read_text())),
        "documents": sentences([part for page in read for part in prose(page.read_text())]),
        "command-line help": sentences(help_texts()),
        "errors": [text for tree in trees for text in errors(tree)],
    }
    strings = [" ".join(text.split("\n\n")[0].split()) for tree in trees for text in docstrings(tree)]
    shares = [(title, found, -(-number // len(sources))) for title, found in sources.items()]
    for title, found, share in [*shares, ("docstrings", strings, number)]:
        chosen = sorted(set(found))
        yield f"\n{title}"
        yield from (f"- {text}" for text in chance.sample(chosen, min(share, len(chosen))))


@click.command(help=__doc__)
@click.option("--draw", "number", type=click.IntRange(min=0), default=0, help="How many sentences and docstrings.")
@click.option("--seed", type=int, default=1, show_default=True, help="Choose other sentences.")
def main(number: int, seed: int) -> None:
    for name, value in counts(ROOT).items():
        click.echo(f"{value:>10,}  {name}")
    if number:
        for line in draw(ROOT, number, seed):
            click.echo(line)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    main()

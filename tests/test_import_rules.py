"""The walls between rooms. A failing case names the file, the import and the rule it breaks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "postern"

ROOMS = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}

# What each room may import of ours, beyond itself. A name with a dot allows only that module.
MAY: dict[str, set[str]] = {
    "errors": set(),
    "domain": {"errors"},
    "settings": {"domain", "errors"},
    "process": set(),
    "descriptors": {"errors"},
    "logs": {"domain", "errors"},
    "metrics": {"domain", "errors", "descriptors"},
    "demo": {"domain", "errors", "settings", "process"},
    "interception": {"domain", "errors"},
    "protocols": {"interception", "domain", "errors"},
    "inspection": {"interception", "domain", "errors"},
    "recording": {"interception", "domain", "errors", "store.ports"},
    "archive": {"recording", "interception", "domain", "errors", "store.ports"},
    # The record format, to say where in a segment the damage is.
    "proof": {"recording.records", "domain", "errors"},
    "relay": {"protocols", "interception", "transport", "domain", "errors", "settings"},
    "transport": {"domain", "errors", "settings"},
    "runbooks": {"domain", "errors"},
    # Bundles of services take all stores (store.stores); a service takes the ports that it needs.
    "services": {"proof", "runbooks", "domain", "errors", "store.ports", "store.stores", "settings"},
    "store": {"domain", "errors", "settings"},
    "integrations": {"domain", "errors", "store.ports", "process"},
    "gateway": {"relay", "services", "transport", "protocols", "interception", "domain", "errors", "settings",
                "store.ports", "process", "descriptors"},
    "agent": {"relay", "transport", "protocols", "interception", "domain", "errors", "settings",
              "integrations.secrets", "descriptors"},
    # The control service's messages, generated: both of its ends speak them.
    "api": {"services", "proof.checkpoints", "transport.control", "domain", "errors", "settings"},
    "client": {"transport.control", "domain", "errors"},
    # The frames of commands: a person's terminal is one of their two ends.
    "cli": {"client", "proof", "domain", "errors", "settings", "wiring", "transport", "process", "descriptors", "logs",
            "protocols.terminal.messages"},
    "wiring": ROOMS | {"errors", "settings", "process", "descriptors", "logs"},
    "testing": {"interception", "protocols", "relay", "domain", "errors", "client"},
}  # fmt: skip

# Libraries that turn values into effects, kept out of the rooms that only turn values into values.
PURE = {"domain", "interception", "protocols", "inspection", "proof", "runbooks"}
EFFECTS = {"asyncio", "socket", "ssl", "time", "threading", "subprocess", "selectors", "uvloop"}
PURE_FILES = {"relay/link.py"}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def files() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem in MAY)


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_room_imports_only_what_it_may(path: Path) -> None:
    room = room_of(path)
    allowed = MAY[room] | {room}
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] != "postern" or len(parts) == 1 or parts[1] == "__version__":
            continue
        other = parts[1]
        if other not in ROOMS | set(MAY) | {"wiring"}:
            continue
        fits = other in allowed or any(name == f"postern.{a}" or name.startswith(f"postern.{a}.") for a in allowed)
        whole = len(parts) == 2 and any(a.startswith(other + ".") for a in allowed)
        assert fits or whole, f"{path.name}:{line} imports {name}; room '{room}' may import {sorted(allowed)} only"


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_pure_rooms_have_no_effects(path: Path) -> None:
    relative = str(path.relative_to(SOURCE))
    if room_of(path) not in PURE and relative not in PURE_FILES:
        return
    for line, name in imports(path):
        assert name.split(".")[0] not in EFFECTS, (
            f"{relative}:{line} imports {name}; this room turns values into values"
        )
        assert name != "os.environ", f"{relative}:{line} reads the environment; only settings.py does"


def test_protocols_do_not_know_each_other() -> None:
    folders = {path.name for path in (SOURCE / "protocols").iterdir() if path.is_dir()}
    for path in (SOURCE / "protocols").rglob("*.py"):
        own = path.relative_to(SOURCE / "protocols").parts[0]
        for line, name in imports(path):
            parts = name.split(".")
            if parts[:2] == ["postern", "protocols"] and len(parts) > 2 and parts[2] in folders:
                assert parts[2] == own, f"{path}:{line} imports {name}; a protocol never imports another"


# What belongs to one protocol outside of `protocols/`, and the rooms that are told of protocols by name: docs/how-to/
# add-a-protocol.md. Everything else is there once for all of them, so that protocols × features stays a sum.
OWN = re.compile(r"(protocols|gateway|agent|testing)/(postgres|mysql|ssh|terminal|command)(/|\.py$)")
TOLD = {
    "gateway/spoken.py",
    "agent/reach.py",
    "wiring/worker.py",
    "wiring/app.py",
    # Commands came before there were seats for protocols: their frames and processes are on the tunnel's own road.
    "agent/framed.py",
    "agent/hooks.py",
    "agent/process.py",
    "cli/terminal.py",
    "gateway/door.py",
    "wiring/declared.py",
    # Rows of held statements are counted by what PostgreSQL's catalogue tells (docs/decisions/0046-row-counts.md).
    "gateway/estimates.py",
}


def test_protocols_are_known_by_name_in_these_files_alone() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        relative = str(path.relative_to(SOURCE))
        if OWN.match(relative):
            continue
        for _, name in imports(path):
            if OWN.match("/".join(name.split(".")[1:]) + "/"):
                found.add(relative)
    assert found == TOLD


def test_only_the_access_service_makes_permits() -> None:
    for path in SOURCE.rglob("*.py"):
        relative = str(path.relative_to(SOURCE))
        if relative in ("services/access.py", "domain/permit.py"):
            continue
        for line, name in imports(path):
            assert name != "postern.domain.permit.seal", f"{relative}:{line} imports seal; only services/access.py may"


def test_every_room_says_what_it_is_for() -> None:
    for room in ROOMS:
        tree = ast.parse((SOURCE / room / "__init__.py").read_text())
        assert ast.get_docstring(tree), f"{room}/__init__.py needs a docstring"


MAX_POSITIONAL = 6


def constructors_with_many_positional_parameters(tree: ast.AST) -> list[str]:
    """Return the names of classes whose constructor takes more than that many positional parameters besides self."""
    found = []
    for owner in ast.walk(tree):
        if not isinstance(owner, ast.ClassDef):
            continue
        for function in owner.body:
            if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                parameters = function.args.posonlyargs + function.args.args
                if len(parameters) > MAX_POSITIONAL + 1:
                    found.append(owner.name)
    return found


def test_constructor_with_many_parameters_takes_keywords() -> None:
    for path in SOURCE.rglob("*.py"):
        found = constructors_with_many_positional_parameters(ast.parse(path.read_text()))
        assert not found, f"{path.relative_to(SOURCE)}: {found[0]}.__init__ needs `*` before its seventh parameter"


def test_constructors_are_counted_by_their_positional_parameters() -> None:
    few, many = "a, b, c, d, e, f, *, g", "a, b, c, d, e, f, g"
    source = f"class A:\n  def __init__(self, {few}): ...\nclass B:\n  def __init__(self, {many}): ..."
    assert constructors_with_many_positional_parameters(ast.parse(source)) == ["B"]

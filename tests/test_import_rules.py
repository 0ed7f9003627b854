"""The walls between rooms. A failing case names the file, the import and the rule it breaks."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from postern.protocols.registry import DEFAULT_PROTOCOL, PROTOCOLS
from postern.protocols.spec import ProtocolSpec

SOURCE = Path(__file__).resolve().parent.parent / "src" / "postern"

ROOMS = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}

# What each room may import of ours, beyond itself and SPECS. A name with a dot allows only that module.
MAY: dict[str, set[str]] = {
    "errors": set(),
    "domain": {"errors"},
    "settings": {"domain", "errors", "settings_file", "settings_values"},
    "settings_values": {"domain", "errors", "settings_file"},
    "settings_file": {"errors"},
    "settings_example": {"settings", "settings_values"},
    "process": set(),
    "descriptors": {"errors"},
    "logs": {"domain", "errors"},
    "metrics": {"domain", "errors", "descriptors"},
    "demo": {"domain", "errors", "settings", "process"},
    "interception": {"domain", "errors"},
    "protocols": {"interception", "domain", "errors"},
    "inspection": {"interception", "domain", "errors"},
    "recording": {"interception", "domain", "errors", "store.ports"},
    "backup": {"errors"},
    "archive": {"recording", "interception", "domain", "errors", "store.ports"},
    # The record format, to say where in a segment the damage is.
    "proof": {"recording.record_format", "domain", "errors"},
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
    # The control service's messages, generated: both of its ends speak them. A browser's terminal is a stream of a
    # tunnel, whose frames the API's process passes on.
    "api": {"services", "proof.proof_checkpoints", "protocols.clients", "protocols.terminal.terminal_frames",
            "transport.control", "transport.tunnel_dialling", "transport.tunnel_messages", "domain", "errors",
            "settings", "web"},
    "web": set(),
    "client": {"transport.control", "protocols.clients", "domain", "errors"},
    # The frames of commands: a person's terminal is one of their two ends.
    "cli": {"client", "proof", "domain", "errors", "settings", "settings_values", "settings_example", "wiring",
            "transport", "process", "descriptors", "logs",
            "protocols.terminal.terminal_frames", "protocols.clients"},
    "wiring": ROOMS | {"errors", "settings", "settings_values", "process", "descriptors", "logs"},
}  # fmt: skip

# Rooms within the package of a protocol: its side of the agent, of the gateway, and its part in judging statements.
_TARGET = r"([a-z]+_target\.py$|target/)"
_LISTENER = r"([a-z]+_(listener|row_counts)\.py$|listener/)"
SUB_ROOMS = {
    re.compile(rf"protocols/[a-z]+/{_TARGET}"): MAY["agent"] | {"agent", "protocols"},
    re.compile(rf"protocols/[a-z]+/{_LISTENER}"): MAY["gateway"] | {"gateway", "protocols"},
    re.compile(r"protocols/[a-z]+/[a-z]+_transport\.py$"): MAY["protocols"] | {"protocols"},
    re.compile(r"protocols/[a-z]+/(dialect|lineage)/"): MAY["inspection"] | {"inspection", "protocols"},
}
# What does I/O: both sides, and what both sides share of a library that does.
SIDES = re.compile(rf"protocols/[a-z]+/({_TARGET}|{_LISTENER}|[a-z]+_transport\.py$)")

# The registry of protocols and their specs stand below all rooms: docs/decisions/0091-one-registry-of-protocols.md.
SPECS = {"protocols.registry", "protocols.spec"}
SPEC = re.compile(r"protocols/(registry|spec|[a-z]+/spec)\.py$")

# Libraries that turn values into effects, kept out of the rooms that only turn values into values.
PURE = {"domain", "interception", "protocols", "inspection", "proof", "runbooks"}
EFFECTS = {"asyncio", "socket", "ssl", "time", "threading", "subprocess", "selectors", "uvloop"}
PURE_FILES = {"relay/link.py"}
# Lines for programs of users: they name the certificate authorities that the system trusts.
CLIENT_LINES = re.compile(r"protocols/(clients|[a-z]+/([a-z]+_)?client)\.py$")


MAX_POSITIONAL = 6


@dataclass(frozen=True)
class Module:
    """What the rules look at. `imports` have their lines, `strings` are those that are not documentation, `classes`
    stand at its top, and the constructors of `crowded` ones take more positional parameters than MAX_POSITIONAL."""

    imports: tuple[tuple[int, str], ...]
    strings: tuple[str, ...]
    classes: tuple[str, ...]
    crowded: tuple[str, ...]


@cache
def module(path: Path) -> Module:
    """Return what is in a module. Each is parsed once."""
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return Module(tuple(_imports(nodes)), tuple(_strings(nodes)), classes, tuple(_crowded(nodes)))


def imports(path: Path) -> tuple[tuple[int, str], ...]:
    return module(path).imports


def _imports(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def _strings(nodes: Sequence[ast.AST]) -> Iterator[str]:
    documents = {
        id(node.body[0].value)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value


def _crowded(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for owner in (node for node in nodes if isinstance(node, ast.ClassDef)):
        for function in owner.body:
            if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                parameters = function.args.posonlyargs + function.args.args
                if len(parameters) > MAX_POSITIONAL + 1:  # besides self
                    yield owner.name


@cache
def files() -> tuple[Path, ...]:
    return tuple(sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem in MAY))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


# One test for each room: one for each file would make a tenth of all tests.
@pytest.mark.parametrize("room", sorted({room_of(path) for path in files()}))
def test_room_imports_only_what_it_may(room: str) -> None:
    assert [found for path in files() if room_of(path) == room for found in forbidden_imports(path)] == []


def forbidden_imports(path: Path) -> Iterator[str]:
    room, relative = room_of(path), str(path.relative_to(SOURCE))
    if SPEC.match(relative):
        return  # has rules of its own: see below
    inner = (allowed for pattern, allowed in SUB_ROOMS.items() if pattern.match(relative))
    allowed = next(inner, MAY[room] | {room}) | SPECS
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] != "postern" or len(parts) == 1 or parts[1] == "__version__":
            continue
        other = parts[1]
        if other not in ROOMS | set(MAY) | {"wiring"}:
            continue
        fits = other in allowed or any(name == f"postern.{a}" or name.startswith(f"postern.{a}.") for a in allowed)
        whole = len(parts) == 2 and any(a.startswith(other + ".") for a in allowed)
        if not (fits or whole):
            yield f"{relative}:{line} imports {name}; room '{room}' may import {sorted(allowed)} only"


def test_forbidden_import_names_its_file_line_and_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    file = tmp_path / "domain" / "new.py"
    file.parent.mkdir()
    file.write_text("import re\nfrom postern.store import database\n")
    found = list(forbidden_imports(file))
    assert found[0].startswith("domain/new.py:2 imports postern.store; room 'domain' may import ")


def test_pure_rooms_have_no_effects() -> None:
    assert [found for path in files() for found in effects(path)] == []


def effects(path: Path) -> Iterator[str]:
    relative = str(path.relative_to(SOURCE))
    if (room_of(path) not in PURE and relative not in PURE_FILES) or SIDES.match(relative):
        return
    for line, name in imports(path):
        if name == "ssl" and CLIENT_LINES.match(relative):
            continue
        if name.split(".")[0] in EFFECTS:
            yield f"{relative}:{line} imports {name}; this room turns values into values"
        if name == "os.environ":
            yield f"{relative}:{line} reads the environment; only settings.py does"


def test_effect_names_its_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    file = tmp_path / "proof" / "new.py"
    file.parent.mkdir()
    file.write_text("import re\nimport time\nfrom os import environ\n")
    assert [found.partition(" imports")[0].partition(" reads")[0] for found in effects(file)] == [
        "proof/new.py:2",
        "proof/new.py:3",
    ]


@pytest.mark.parametrize("path", [path for path in files() if SPEC.match(str(path.relative_to(SOURCE)))], ids=str)
def test_spec_imports_only_other_specs_when_it_is_loaded(path: Path) -> None:
    """A spec names what a protocol has in all rooms; its functions import that when they are called."""
    tree = ast.parse(path.read_text())
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else node.names[0].name
            file = "/".join(module.split(".")[1:]) + ".py"
            assert module.split(".")[0] not in EFFECTS, f"{path}:{node.lineno} imports {module}"
            assert not module.startswith("postern") or SPEC.match(file), f"{path}:{node.lineno} imports {module}"


# What several protocols are built on, and is no protocol by itself: links to programs, HTTP, requests to AWS.
SHARED = {"aws", "http", "terminal"}
WORDS = {"sql"}


def test_protocols_do_not_know_each_other() -> None:
    folders = {path.name for path in (SOURCE / "protocols").iterdir() if path.is_dir()} - SHARED
    for path in (SOURCE / "protocols").rglob("*.py"):
        own = path.relative_to(SOURCE / "protocols").parts[0]
        if own == "registry.py":
            continue
        for line, name in imports(path):
            parts = name.split(".")
            if parts[:2] == ["postern", "protocols"] and len(parts) > 2 and parts[2] in folders:
                assert parts[2] == own, f"{path}:{line} imports {name}; a protocol never imports another"


# What belongs to one protocol. Everything else is there once for all of them, so that protocols × features stays a sum:
# docs/how-to/add-a-protocol.md.
_NAMES = "|".join(sorted(path.parent.name for path in (SOURCE / "protocols").glob("*/spec.py")))
OWN = re.compile(
    rf"protocols/({_NAMES})/"
    r"|inspection/sql/postgres/"
    r"|protocols/registry\.py$|settings\.py$"
)
# The folders and modules of one protocol, as imports name them.
OF_ONE = re.compile(rf"protocols/({_NAMES})(/|$)|inspection/.*(postgres|mysql)[a-z_]*(/|$)")

# Modules that import what belongs to one protocol, each with its reason.
IMPORTS_ONE = {
    "wiring/processes/prepare.py": "prints the psql line of the demo, whose target is a PostgreSQL server",
}
# Modules that name a protocol in a string, each with its reason.
SAYS_ONE = {
    "api/schemas/sessions/session_schemas.py": "says what SQLSTATE is",
    "demo/binaries.py": "the demo's target is a PostgreSQL server",
    "demo/runner.py": "the demo's target is a PostgreSQL server",
    "domain/identity/login.py": "how somebody logged in to the gateway, as it is stored",
    "integrations/git/fetcher.py": "a URL's scheme",
    "integrations/git/messages.py": "a URL's scheme",
    "integrations/git/git_places.py": "a URL's scheme",
    "integrations/git/git_tasks.py": "a URL's scheme",
    "store/database.py": "the gateway's own store",
    "store/schema/session_tables.py": "the gateway's own store",
    "store/store_rows.py": "the gateway's own store",
    "wiring/demo_shop.py": "the demo's target is a PostgreSQL server",
    "wiring/app.py": "a URL's scheme",
    "wiring/host/backup.py": "the gateway's own store",
    "wiring/processes/machine_processes.py": "prints the psql line of the demo",
    "wiring/processes/prepare.py": "prints the psql line of the demo",
}


def foreign_files() -> Iterator[tuple[str, Path]]:
    """Yield the modules that belong to no protocol."""
    for path in SOURCE.rglob("*.py"):
        relative = str(path.relative_to(SOURCE))
        if not OWN.match(relative):
            yield relative, path


def test_modules_of_one_protocol_are_imported_in_these_files_alone() -> None:
    importing = {
        relative
        for relative, path in foreign_files()
        for _, name in imports(path)
        if name.startswith("postern.") and OF_ONE.search("/".join(name.split(".")[1:]))
    }
    assert importing == IMPORTS_ONE.keys()


def _names(spec: ProtocolSpec) -> set[str]:
    """Return the names of a protocol, its servers and its clients. `terminal` is not among them, as it is a word for a
    window, too; nor is `sql`, which one client is called by."""
    programs = spec.client().names if spec.client is not None else ()
    return {spec.name, *spec.aliases, *programs} - SHARED - WORDS


NAMES_WITHIN = re.compile("|".join(n for s in PROTOCOLS.values() if s.type == "database" for n in _names(s)))
WHOLE_NAMES = {name for spec in PROTOCOLS.values() for name in _names(spec)}


def names_one(text: str) -> bool:
    """Whether a string names a protocol: a database within it, any other as a whole, as users have SSH keys whatever
    they connect to."""
    return text.lower() in WHOLE_NAMES or NAMES_WITHIN.search(text.lower()) is not None


def test_protocols_are_named_in_strings_of_these_files_alone() -> None:
    naming = {relative for relative, path in foreign_files() if any(map(names_one, module(path).strings))}
    assert naming == SAYS_ONE.keys()


# Where the default database is named in text: the gateway's own store and the demo's target are servers of it, its
# parser as trees is shared, and SQLSTATE is its word.
NAMES_DEFAULT = (
    r"|(store|demo|wiring|inspection/(sql|lineage))/|protocols/wire_base\.py$|api/schemas/sessions/session_schemas\.py$"
    r"|cli/commands/(backup|processes/gateway|runbooks/run)_commands\.py$"
)


@pytest.mark.parametrize(
    "spec", [spec for spec in PROTOCOLS.values() if spec.type == "database"], ids=lambda spec: spec.name
)
def test_no_text_outside_of_its_package_names_a_database(spec: ProtocolSpec) -> None:
    """Not even documentation and comments."""
    named = re.compile("|".join(_names(spec)), re.IGNORECASE)
    more = NAMES_DEFAULT if spec.name == DEFAULT_PROTOCOL else ""
    own = re.compile(rf"protocols/{spec.name}/|protocols/registry\.py$|settings\.py$|web/dist/" + more)
    naming = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".so"} and named.search(path.read_text(errors="replace"))
    }
    assert [relative for relative in sorted(naming) if not own.match(relative)] == []


def test_no_file_outside_of_its_package_is_named_after_a_database() -> None:
    named = re.compile("|".join(spec.name for spec in PROTOCOLS.values() if spec.type == "database"))
    assert [relative for relative, _ in foreign_files() if named.search(relative)] == []


def test_only_the_access_service_makes_permits() -> None:
    for path in SOURCE.rglob("*.py"):
        relative = str(path.relative_to(SOURCE))
        if relative in ("services/admission.py", "domain/rules/permit.py"):
            continue
        for line, name in imports(path):
            assert name != "postern.domain.rules.permit.seal", (
                f"{relative}:{line} imports seal; only services/admission.py may"
            )


def test_every_room_says_what_it_is_for() -> None:
    for room in ROOMS:
        tree = ast.parse((SOURCE / room / "__init__.py").read_text())
        assert ast.get_docstring(tree), f"{room}/__init__.py needs a docstring"


def test_constructor_with_many_parameters_takes_keywords() -> None:
    for path in SOURCE.rglob("*.py"):
        found = module(path).crowded
        assert not found, f"{path.relative_to(SOURCE)}: {found[0]}.__init__ needs `*` before its seventh parameter"


def test_constructors_are_counted_by_their_positional_parameters(tmp_path: Path) -> None:
    few, many = "a, b, c, d, e, f, *, g", "a, b, c, d, e, f, g"
    file = tmp_path / "new.py"
    file.write_text(f"class A:\n  def __init__(self, {few}): ...\nclass B:\n  def __init__(self, {many}): ...")
    assert module(file).crowded == ("B",)


MAP = SOURCE.parent.parent / "docs" / "architecture.md"
MOST_FILES = 25


def test_room_map_says_what_each_room_may_import() -> None:
    shown = {}
    items = MAP.read_text().replace("\n  ", " ")
    for room, example, may in re.findall(r"^- `(\w+)`: .+ \(`([\w/.]+)`\)\. Imports (.+)\.$", items, re.MULTILINE):
        shown[room] = set(re.findall(r"`([\w.]+)`", may)) or may
        assert (SOURCE / example).exists(), f"{example} of the room map is not there"
    everything = set(MAY["wiring"]) - {"wiring"}
    allowed = {room: MAY[room] - {"domain", "errors"} for room in ROOMS}
    assert shown == {
        room: "all" if may >= everything - {"domain", "errors"} else may or "nothing" for room, may in allowed.items()
    }


def test_folder_has_no_more_files_than_one_can_look_through() -> None:
    folders = [path for path in SOURCE.rglob("*") if path.is_dir()]
    counts = {folder: sum(file.stem != "__init__" for file in folder.glob("*.py")) for folder in folders}
    assert {str(folder.relative_to(SOURCE)): count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_file_name_says_what_is_in_it() -> None:
    """No two modules have the same name, so that a search finds one. Each protocol's folder has a `spec.py`."""
    names = [path.stem for path in SOURCE.rglob("*.py") if path.stem not in {"__init__", "__main__", "spec"}]
    assert sorted(name for name, count in Counter(names).items() if count > 1) == []


def test_public_class_name_is_used_once() -> None:
    """So that a search or a stack trace that names a class means one thing."""
    modules: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        if "_pb2" in path.name:
            continue  # generated, with the names of its .proto file
        for name in module(path).classes:
            if not name.startswith("_"):
                modules.setdefault(name, []).append(str(path.relative_to(SOURCE)))
    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}

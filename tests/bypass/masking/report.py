"""Reports about the corpus: the open leaks, the counts of ordinary queries, and the printed table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.bypass.masking import attacks_mysql, attacks_postgres, honest
from tests.bypass.masking.attack import Attack
from tests.bypass.masking.compare import Finding, Judge, Server
from tests.bypass.masking.honest import Outcome
from tests.bypass.masking.mariadb import mariadb
from tests.bypass.masking.postgres import postgres
from tests.bypass.masking.strategies import STRATEGIES
from tests.support.mysql import running_mariadb
from tests.support.postgres import running_server

ATTACKS: Mapping[str, Sequence[Attack]] = {"postgres": attacks_postgres.ATTACKS, "mariadb": attacks_mysql.ATTACKS}
PROTOCOLS: Mapping[str, tuple[str, ...]] = {"postgres": ("simple", "extended"), "mariadb": ("text", "binary")}

OPEN_LEAKS = Path(__file__).with_name("open_leaks.txt")
HONEST_COUNTS = Path(__file__).with_name("honest_counts.txt")
_ALL = "*"

# By server and name of the attack: strategy/protocol of each policy under which it leaks.
Open = Mapping[tuple[str, str], frozenset[str]]
Counts = Mapping[tuple[str, str], Counter[Outcome]]


def read_open() -> Open:
    found = {}
    for line in _lines(OPEN_LEAKS):
        server, where, name = (part.strip() for part in line.split(" | ", 2))
        found[server, name] = frozenset(_unfolded(server, where.split()))
    return found


def write_open(found: Open) -> None:
    """Write the open leaks. Servers that `found` does not name keep their lines."""
    servers = {server for server, _ in found}
    merged = {**{key: where for key, where in read_open().items() if key[0] not in servers}, **found}
    lines = [
        "# Leaks that are known and open: server | strategy/protocol | attack. Exact: a test fails for every difference.",
        "# `python -m tests.bypass masking --write` writes this file anew. A line less is the only good change.",
    ]
    for server, attacks in ATTACKS.items():
        for attack in attacks:
            where = merged.get((server, attack.name))
            if where:
                lines.append(f"{server} | {' '.join(_folded(server, where))} | {attack.name}")
    OPEN_LEAKS.write_text("\n".join(lines) + "\n")


def _folded(server: str, where: frozenset[str]) -> Iterator[str]:
    for policing in STRATEGIES:
        protocols = [one for one in PROTOCOLS[server] if f"{policing.name}/{one}" in where]
        if len(protocols) == len(PROTOCOLS[server]):
            yield f"{policing.name}/{_ALL}"
        else:
            yield from (f"{policing.name}/{one}" for one in protocols)


def _unfolded(server: str, where: Iterable[str]) -> Iterator[str]:
    for one in where:
        strategy, _, protocol = one.partition("/")
        yield from (f"{strategy}/{each}" for each in (PROTOCOLS[server] if protocol == _ALL else (protocol,)))


def read_counts() -> Counts:
    found: dict[tuple[str, str], Counter[Outcome]] = {}
    for line in _lines(HONEST_COUNTS):
        server, strategy, *numbers = line.split()
        found[server, strategy] = Counter(dict(zip(Outcome, map(int, numbers), strict=True)))
    return found


def write_counts(found: Counts) -> None:
    merged = {**read_counts(), **found}
    lines = [
        "# Ordinary queries by what masking does to them, of those in honest.py. Exact: a test fails for every difference.",
        f"# {'server':<10}{'strategy':<14}{''.join(f'{one:>11}' for one in Outcome)}",
    ]
    for server in ATTACKS:
        for policing in STRATEGIES:
            count = merged.get((server, policing.name))
            if count is not None:
                numbers = "".join(f"{count[one]:>11}" for one in Outcome)
                lines.append(f"  {server:<10}{policing.name:<14}{numbers}")
    HONEST_COUNTS.write_text("\n".join(lines) + "\n")


def _lines(path: Path) -> list[str]:
    """Return the lines without comments; none if the file does not exist."""
    text = path.read_text() if path.exists() else ""
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


@contextmanager
def server(name: str) -> Iterator[Server]:
    """Run the server of that name within the context."""
    with ExitStack() as stack:
        if name == "postgres":
            yield stack.enter_context(postgres(stack.enter_context(running_server())))
        else:
            yield stack.enter_context(mariadb(stack.enter_context(running_mariadb())))


def open_of(findings: Mapping[str, Sequence[Finding]], server: str) -> dict[tuple[str, str], frozenset[str]]:
    """Return the leaks among the findings of each strategy."""
    found: dict[tuple[str, str], set[str]] = {}
    for strategy, each in findings.items():
        for finding in each:
            if finding.attack.channel is None:
                found.setdefault((server, finding.attack.name), set()).add(f"{strategy}/{finding.protocol}")
    return {key: frozenset(where) for key, where in found.items()}


def run(name: str, *, write: bool) -> bool:
    """Print the table of one server. Return whether the results equal the two files."""
    findings: dict[str, list[Finding]] = {}
    with server(name) as running:
        judge = Judge(running)
        for policing in STRATEGIES:
            findings[policing.name] = [
                finding
                for protocol in running.protocols
                for finding in judge.findings(policing, protocol, ATTACKS[name])
            ]
        counted = {(name, policing.name): honest.counts(running, policing) for policing in STRATEGIES}
    _print_table(name, findings, counted)
    found = open_of(findings, name)
    known = {key: where for key, where in read_open().items() if key[0] == name}
    for (_, attack), where in sorted(found.items()):
        mark = "known" if known.get((name, attack)) == where else "NEW"
        told = next(one.difference for each in findings.values() for one in each if one.attack.name == attack)
        print(f"  {mark} LEAK  {attack} ({' '.join(_folded(name, where))}): {told[:200]}")
    for (_, attack), where in sorted(known.items()):
        if where - found.get((name, attack), frozenset()):
            print(f"  CLOSED  {attack}")
    is_exact = found == known and all(read_counts().get(key) == count for key, count in counted.items())
    if write:
        write_open(found)
        write_counts(counted)
    return is_exact or write


def _print_table(name: str, findings: Mapping[str, Sequence[Finding]], counted: Counts) -> None:
    attacks = ATTACKS[name]
    groups = list(dict.fromkeys(attack.group for attack in attacks))
    print(f"{name + ': attacks that learn something':<44}{'of':>5}" + "".join(f"{one.name:>14}" for one in STRATEGIES))
    for group in groups:
        members = {attack.name for attack in attacks if attack.group == group}
        is_channel = any(attack.channel for attack in attacks if attack.group == group)
        row = "".join(f"{len(members & {found.attack.name for found in findings[one.name]}):>14}" for one in STRATEGIES)
        print(f"{group + (' (documented)' if is_channel else ''):<44}{len(members):>5}{row}")
    for kind in Outcome:
        row = "".join(f"{counted[name, one.name][kind]:>14}" for one in STRATEGIES)
        print(f"{'ordinary queries ' + kind:<44}{len(honest.QUERIES[name]):>5}{row}")


def main(arguments: Sequence[str]) -> int:
    names = [name for name in arguments if name in ATTACKS] or list(ATTACKS)
    exact = [run(name, write="--write" in arguments) for name in names]
    return 0 if all(exact) else 1

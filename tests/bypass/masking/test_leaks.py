"""Every attack on a masked column against databases that differ in masked values: the client can tell them apart only
by a documented channel, or by a leak that is listed as open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.bypass.masking import honest, report
from tests.bypass.masking.attack import Attack, Channel
from tests.bypass.masking.compare import DECODING_TABLE, Judge, Server, difference
from tests.bypass.masking.mariadb import mariadb
from tests.bypass.masking.postgres import postgres
from tests.bypass.masking.report import ATTACKS, PROTOCOLS
from tests.bypass.masking.strategies import STRATEGIES, Policing
from tests.support.mysql import running_mariadb
from tests.support.postgres import PostgresServer

TABLE = [
    pytest.param(name, policing, protocol, id=f"{name}-{policing.name}-{protocol}")
    for name, protocols in PROTOCOLS.items()
    for policing in STRATEGIES
    for protocol in protocols
]
CORE = [param for param in TABLE if param.values[2] in ("extended", "text")]
_PAIRS = [pytest.param(name, policing, id=f"{name}-{policing.name}") for name in ATTACKS for policing in STRATEGIES]


@pytest.fixture(scope="module")
def postgres_judge(postgres_server: PostgresServer) -> Iterator[Judge]:
    with postgres(postgres_server) as running:
        yield Judge(running)


@pytest.fixture(scope="module")
def mariadb_judge() -> Iterator[Judge]:
    with running_mariadb() as server, mariadb(server) as running:
        yield Judge(running)


@pytest.fixture
def judge(name: str, request: pytest.FixtureRequest) -> Judge:
    found: Judge = request.getfixturevalue(f"{name}_judge")
    return found


def compare(judge: Judge, policing: Policing, protocol: str, attacks: list[Attack]) -> None:
    """Assert that exactly the attacks in the list of open leaks learn something."""
    name, here = judge.server.name, f"{policing.name}/{protocol}"
    known = {attack for (server, attack), where in report.read_open().items() if server == name and here in where}
    found = {finding.attack.name: finding.difference for finding in judge.findings(policing, protocol, attacks)}
    names = {attack.name for attack in attacks}
    new = [f"{attack}: {told}" for attack, told in found.items() if attack not in known]
    closed = sorted((known & names) - found.keys())
    assert not new, "these attacks learn something:\n" + "\n".join(new)
    assert not closed, "these leaks are closed; remove them from open_leaks.txt:\n" + "\n".join(closed)


@pytest.mark.parametrize(("name", "policing", "protocol"), CORE)
def test_core_attacks_on_masked_columns_learn_nothing(
    judge: Judge, name: str, policing: Policing, protocol: str
) -> None:
    compare(judge, policing, protocol, [one for one in ATTACKS[name] if one.channel is None and one.is_core])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "policing", "protocol"), TABLE)
def test_attacks_on_masked_columns_learn_nothing(judge: Judge, name: str, policing: Policing, protocol: str) -> None:
    compare(judge, policing, protocol, [one for one in ATTACKS[name] if one.channel is None])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ATTACKS))
def test_every_attack_on_a_documented_channel_learns_something(judge: Judge, name: str) -> None:
    """A channel that no longer reveals anything must not be documented, and its attacks belong to another group."""
    attacks = [attack for attack in ATTACKS[name] if attack.channel is not None]
    closed = [
        attack.name
        for attack in attacks
        if not any(
            judge.compare(policing, protocol, attack.steps)
            for policing in STRATEGIES
            for protocol in judge.server.protocols
        )
    ]
    assert not closed, "these use a documented channel that tells nothing:\n" + "\n".join(closed)
    assert {attack.channel for attack in attacks} == set(Channel)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ATTACKS))
def test_most_attacks_would_learn_something_without_masking(judge: Judge, name: str) -> None:
    """The others use errors and plans that reveal nothing on this version of the server."""
    attacks = [attack for attack in ATTACKS[name] if attack.group != DECODING_TABLE]
    idle = [attack.name for attack in attacks if not _tells_apart(judge.server, attack)]
    assert len(idle) <= len(attacks) // 4, "these tell nothing even without masking:\n" + "\n".join(idle)


def _tells_apart(server: Server, attack: Attack) -> bool:
    return any(
        difference(
            server.run(None, "a", protocol, attack.steps).answers,
            server.run(None, other, protocol, attack.steps).answers,
        )
        for protocol in server.protocols
        for other in ("b", "c")
    )


@pytest.mark.slow
@pytest.mark.parametrize(("name", "policing"), _PAIRS)
def test_outcomes_of_ordinary_queries_equal_the_stored_counts(judge: Judge, name: str, policing: Policing) -> None:
    assert honest.counts(judge.server, policing) == report.read_counts()[name, policing.name]


def test_every_open_leak_names_an_attack_of_the_corpus() -> None:
    known = {(name, attack.name) for name, attacks in ATTACKS.items() for attack in attacks if attack.channel is None}
    assert report.read_open().keys() <= known


def test_corpus_has_ten_attacks_of_each_class() -> None:
    for name, least in {"postgres": 700, "mariadb": 400}.items():
        assert len(ATTACKS[name]) >= least
        groups = [attack.group for attack in ATTACKS[name] if attack.channel is None]
        assert {group for group in groups if groups.count(group) < 10} == set()

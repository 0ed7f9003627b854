"""A part of the masking corpus through a real gateway: what a client receives does not tell databases apart that
differ in masked values only. `tests/bypass/masking` has the corpus and runs all of it."""

from __future__ import annotations

import pytest
from tests.bypass.masking import mariadb, postgres, report
from tests.bypass.masking.attack import Attack
from tests.bypass.masking.compare import Judge
from tests.bypass.masking.gateway import MariaDbGateway, PostgresGateway
from tests.bypass.masking.strategies import STRATEGIES, Policing
from tests.support.gateway import Gateway
from tests.support.mariadb import MariaDbServer
from tests.support.postgres import PostgresServer

# Best effort tells by a marker in the recording, which the corpus looks for where it runs without a network.
STRICT = [pytest.param(policing, id=policing.name) for policing in STRATEGIES if not policing.is_marked]
HASH = next(policing for policing in STRATEGIES if policing.name == "hash")


@pytest.fixture(scope="module")
def postgres_judge(gateway: Gateway, target: PostgresServer) -> Judge:
    postgres.set_up(target)
    return Judge(PostgresGateway(gateway, target, postgres.last_oid(target)))


@pytest.fixture(scope="module")
def mariadb_judge(gateway: Gateway, maria: MariaDbServer) -> Judge:
    mariadb.set_up(maria)
    return Judge(MariaDbGateway(gateway, maria))


def first_of_each_group(server: str) -> list[Attack]:
    found: dict[str, Attack] = {}
    for attack in report.ATTACKS[server]:
        if attack.channel is None:
            found.setdefault(attack.group, attack)
    return list(found.values())


def compare(judge: Judge, policing: Policing, protocol: str, attacks: list[Attack]) -> None:
    name, here = judge.server.name, f"{policing.name}/{protocol}"
    names = {attack.name for attack in attacks}
    known = {attack for (server, attack), where in report.read_open().items() if server == name and here in where}
    found = {finding.attack.name: finding.difference for finding in judge.findings(policing, protocol, attacks)}
    assert found.keys() == known & names, found


@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_first_attack_of_each_class_leaks_nothing_on_postgres(postgres_judge: Judge, protocol: str) -> None:
    compare(postgres_judge, HASH, protocol, first_of_each_group("postgres"))


def test_first_attack_of_each_class_leaks_nothing_on_mariadb(mariadb_judge: Judge) -> None:
    compare(mariadb_judge, HASH, "text", first_of_each_group("mariadb"))


@pytest.mark.slow
@pytest.mark.parametrize("policing", STRICT)
@pytest.mark.parametrize("protocol", ["simple", "extended"])
def test_core_attacks_leak_nothing_on_postgres(postgres_judge: Judge, policing: Policing, protocol: str) -> None:
    attacks = [one for one in report.ATTACKS["postgres"] if one.channel is None and one.is_core]
    compare(postgres_judge, policing, protocol, attacks)


@pytest.mark.slow
@pytest.mark.parametrize("policing", STRICT)
@pytest.mark.parametrize("protocol", ["text", "binary"])
def test_core_attacks_leak_nothing_on_mariadb(mariadb_judge: Judge, policing: Policing, protocol: str) -> None:
    attacks = [one for one in report.ATTACKS["mariadb"] if one.channel is None and one.is_core]
    compare(mariadb_judge, policing, protocol, attacks)

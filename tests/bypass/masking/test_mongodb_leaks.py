"""What clients of a real MongoDB server learn of masked fields: nothing but by the documented channels."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.bypass.masking import attacks_mongodb, attacks_mongodb_server
from tests.bypass.masking.attack import Attack
from tests.bypass.masking.mongodb_talk import find_secrets
from tests.bypass.masking.mongodb_world import SECRETS, Heard, MongodbWorld, is_error, mongodb_world
from tests.bypass.masking.strategies import STRATEGIES, Policing
from tests.support.mongodb import running_mongodb

ATTACKS = (*attacks_mongodb.ATTACKS, *attacks_mongodb_server.ATTACKS)
# Answers that differ for other reasons: joins, orders and counts are documented channels, and servers choose
# identifiers, times and samples.
_DIFFERS = re.compile(
    r'"from": "guesses"|"sortBy": \{"(?:salary|ssn)"|"\$densify"|"\$sample"|"_id": "\$_id"\}\}, \{"\$sort"'
    r'|"upsert"|"listCollections"|"\$collStats"|"profile"|"\$changeStream"|"partitionBy": "\$ssn"|"collMod"|"createIndexes"'
)


@pytest.fixture(scope="module")
def world() -> Iterator[MongodbWorld]:
    with running_mongodb(auth=False) as server, mongodb_world(server) as running:
        yield running


def learned(world: MongodbWorld, policing: Policing, attack: Attack) -> str:
    """Return what a client learns by an attack; empty if nothing."""
    heard = world.run(policing, "a", attack.steps)
    if attack.channel is not None or (policing.is_marked and heard.is_marked):
        return ""
    text = " ".join(attack.steps)
    secrets = [secret for secret in find_secrets(heard.received, SECRETS) if secret not in text]
    if secrets:
        return f"{secrets} in {heard.replies}"
    if policing.has_pseudonyms or _DIFFERS.search(text):
        return ""
    other = world.run(policing, policing.variant, attack.steps)
    if policing.is_marked and other.is_marked:
        return ""
    return _difference(heard, other)


def _difference(one: Heard, other: Heard) -> str:
    """Return the first replies that differ. That there is an error, and which, is a documented channel."""
    for left, right in zip(one.replies, other.replies, strict=True):
        if left == right:
            continue
        if (is_error(left) or is_error(right)) and left.get("code") != right.get("code"):
            return ""
        return f"{left} / {right}"
    return ""


def compare(world: MongodbWorld, policing: Policing, attacks: list[Attack]) -> None:
    found = {attack.name: learned(world, policing, attack) for attack in attacks}
    new = [f"{name}: {told}"[:3000] for name, told in found.items() if told]
    assert not new, "these attacks learn something:\n" + "\n".join(new)


def test_core_attacks_learn_nothing_of_masked_fields(world: MongodbWorld) -> None:
    compare(world, STRATEGIES[0], [attack for attack in ATTACKS if attack.is_core])


@pytest.mark.huge
@pytest.mark.parametrize("policing", STRATEGIES, ids=lambda policing: policing.name)
def test_attacks_learn_nothing_of_masked_fields(world: MongodbWorld, policing: Policing) -> None:
    compare(world, policing, list(ATTACKS))


@pytest.mark.huge
def test_most_attacks_would_learn_something_without_masking(world: MongodbWorld) -> None:
    """The others use what this server does not have, or errors that quote nothing here."""
    attacks = attacks_mongodb_server.ATTACKS
    idle = 0
    for attack in attacks:
        replies = [world.run(None, variant, attack.steps).replies for variant in ("a", "c")]
        idle += replies[0] == replies[1]
    assert idle <= len(attacks) // 2


def test_answers_of_best_effort_rules_have_a_marker(world: MongodbWorld) -> None:
    policing = next(each for each in STRATEGIES if each.is_marked)
    heard = world.run(policing, "a", ['{"find": "people", "projection": {"x": {"$frob": "$ssn"}}, "$db": "scratch"}'])
    assert is_error(heard.replies[0])  # of the server
    explained = '{"explain": {"find": "people"}, "verbosity": "executionStats", "$db": "scratch"}'
    heard = world.run(policing, "a", [explained])
    assert not is_error(heard.replies[0])
    assert heard.is_marked


def test_corpus_is_large() -> None:
    assert len(ATTACKS) >= 400
    assert len({attack.name for attack in attacks_mongodb_server.ATTACKS}) == len(attacks_mongodb_server.ATTACKS)

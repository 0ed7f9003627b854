"""Both sides of SCRAM, against those of a library."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramClient, ScramException, ScramMechanism
from tests.support.examples import examples

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret
from postern.protocols.scram import (
    KeyCache,
    Keys,
    Rejected,
    ScramChallenge,
    ScramExchange,
    derive,
)

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
SALT = b"0123456789abcdef"


def converse(user: str, password: str, stored: str, *, binding: bytes | None, plus: bool, theirs: bytes | None) -> None:
    """Run the exchange; raise the error of the side that rejects it."""
    mechanism = ScramMechanism("SCRAM-SHA-256-PLUS" if plus else "SCRAM-SHA-256")
    server = mechanism.make_server(
        lambda _: ScramMechanism("SCRAM-SHA-256").make_auth_info(stored),
        channel_binding=("tls-server-end-point", theirs) if theirs else None,
    )
    exchange = ScramExchange(user, binding=binding, plus=plus)
    server.set_client_first(exchange.first.decode())
    exchange.challenge(server.get_server_first())
    server.set_client_final(exchange.final(derive(Secret(password), exchange.salt, exchange.rounds)).decode())
    exchange.check(server.get_server_final())


def verifier_of(password: str) -> Verifier:
    salt, stored_key, server_key, iterations = ScramMechanism("SCRAM-SHA-256").make_auth_info(password, salt=SALT)
    return Verifier(iterations, salt, stored_key, server_key)


def answer(password: str, stored: str, *, binding: bytes | None, plus: bool, theirs: bytes | None) -> None:
    """Run the exchange with the library's client; raise the error of the side that rejects it."""
    channel = ("tls-server-end-point", binding) if binding else None
    client = ScramClient(["SCRAM-SHA-256-PLUS" if plus else "SCRAM-SHA-256"], "*", password, channel_binding=channel)
    challenge = ScramChallenge(verifier_of(stored), binding=theirs, plus=plus)
    client.set_server_first(challenge.first(client.get_client_first()))
    client.set_server_final(challenge.final(client.get_client_final()))


def acceptable(text: str) -> bool:
    try:
        ScramMechanism("SCRAM-SHA-256").make_auth_info(text)
    except ScramException:
        return False
    return True


@given(TEXT, TEXT.filter(acceptable), st.booleans(), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_scram_exchange_with_a_library_server_succeeds(user: str, password: str, bound: bool, plus: bool) -> None:
    if not acceptable(user):
        user = "somebody"
    binding = b"certificate" if bound else None
    # "y,,": we could bind, the server cannot.
    theirs = binding if plus else None
    converse(user, password, password, binding=binding, plus=plus and bound, theirs=theirs)


@pytest.mark.parametrize(("user", "password"), [("a=b,c", "x"), ("u", "pass\u00adword"), ("u", "\u2168\u00a0x")])
def test_scram_escapes_user_names_and_prepares_passwords(user: str, password: str) -> None:
    converse(user, password, password, binding=None, plus=False, theirs=None)


def test_password_rejected_by_saslprep_is_used_unchanged() -> None:
    assert derive(Secret("a\u0007b"), SALT, 4096) != derive(Secret("ab"), SALT, 4096)


def test_scram_exchange_with_a_wrong_password_or_certificate_fails() -> None:
    with pytest.raises(ScramException):
        converse("u", "right", "wrong", binding=None, plus=False, theirs=None)
    with pytest.raises(ScramException):
        converse("u", "right", "right", binding=b"one", plus=True, theirs=b"another")


@given(st.text(max_size=60))
def test_arbitrary_scram_challenges_and_signatures_are_rejected(text: str) -> None:
    exchange = ScramExchange("u", binding=None, plus=False)
    with pytest.raises(Rejected):
        exchange.challenge(text)
    with pytest.raises(Rejected):
        exchange.check("v=" + text)


def test_scram_signature_before_a_challenge_is_rejected() -> None:
    with pytest.raises(Rejected):
        ScramExchange("u", binding=None, plus=False).check("v=")


def test_scram_key_cache_is_bounded_and_hides_its_secrets() -> None:
    cache, keys = KeyCache(), Keys(b"client", b"server")
    for rounds in range(4096, 4096 + 600):
        cache.keep(Secret("p"), SALT, rounds, keys)
        cache.find(Secret("p"), SALT, 4096)
    assert len(cache._kept) == 512
    assert cache.find(Secret("p"), SALT, 4096) == keys
    assert cache.find(Secret("p"), SALT, 4097) is None
    assert "client" not in repr(keys)
    assert b"p" not in cache._kept


@given(st.binary(max_size=3), st.binary(max_size=3), st.text(max_size=3), st.text(max_size=3))
def test_cached_scram_keys_are_found_by_their_password_and_salt_only(
    one: bytes, two: bytes, first: str, second: str
) -> None:
    cache, keys = KeyCache(), Keys(b"client", b"server")
    try:
        cache.keep(Secret(first), one, 4096, keys)
        found = cache.find(Secret(second), two, 4096)
    except UnicodeEncodeError:
        return
    assert (found is not None) == ((one, first) == (two, second))


@given(TEXT.filter(acceptable), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_library_client_with_the_right_password_is_accepted(password: str, plus: bool) -> None:
    binding = b"certificate" if plus else None
    answer(password, password, binding=binding, plus=plus, theirs=binding)


def test_library_client_with_a_wrong_password_or_certificate_is_rejected() -> None:
    with pytest.raises(Rejected):
        answer("right", "wrong", binding=None, plus=False, theirs=None)
    with pytest.raises(Rejected):
        answer("right", "right", binding=b"one", plus=True, theirs=b"another")
    with pytest.raises(Rejected):  # it could bind, and saw no offer, although there was one
        answer("right", "right", binding=b"one", plus=False, theirs=b"one")


@pytest.mark.parametrize(
    ("first", "plus"),
    [
        ("n,,n=,r=abc", True),
        ("y,,n=,r=abc", True),
        ("p=tls-server-end-point,,n=,r=abc", False),
        ("p=tls-unique,,n=,r=abc", True),
        ("n,a=root,n=,r=abc", False),
        ("n,,n=,r=", False),
        ("n,,n=,r=a\u00e9", False),
        ("n,,n=,r=abc,r=def", False),
        ("n,,n=,r=abc,m=x", False),
        ("n,,m=x,n=,r=abc", False),
        ("n,,n=,r=abc\n", False),
        ("n,,n=,r=abc,x=", False),
    ],
)
def test_first_message_that_does_not_fit_is_rejected(first: str, plus: bool) -> None:
    with pytest.raises(Rejected):
        ScramChallenge(verifier_of("p"), binding=b"certificate", plus=plus).first(first)


def final_of(challenge: ScramChallenge, first: str, password: str) -> str:
    """Return the final message of a client whose first message, with no channel binding, was `first`."""
    server_first = challenge.first("n,," + first)
    keys = derive(Secret(password), SALT, 4096)
    exchange = ScramExchange("u", binding=None, plus=False)
    exchange._bare, exchange._nonce = first, first.split(",")[1][2:]
    exchange.challenge(server_first)
    return exchange.final(keys).decode()


def test_unknown_attributes_are_signed_and_otherwise_ignored() -> None:
    challenge = ScramChallenge(verifier_of("p"), binding=None, plus=False)
    assert challenge.final(final_of(challenge, "n=,r=abc,x=1", "p")).startswith("v=")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("c=biws", "c=eSws"),
        lambda text: text.replace("r=abc", "r=abd"),
        lambda text: text.replace(",p=", ",x=1,p="),
        lambda text: text.replace(",p=", ",p=AAAA,p="),
        lambda text: text + "\n",
        lambda text: text[:-4],
        lambda text: text.replace(",p=", ",p=AAAA"),
        lambda text: text.partition(",p=")[0],
    ],
)
def test_changed_final_message_is_rejected(change: Callable[[str], str]) -> None:
    challenge = ScramChallenge(verifier_of("p"), binding=None, plus=False)
    final = final_of(challenge, "n=,r=abc", "p")
    with pytest.raises(Rejected):
        challenge.final(change(final))
    assert challenge.final(final).startswith("v=")


def test_final_message_before_the_first_is_rejected() -> None:
    with pytest.raises(Rejected):
        ScramChallenge(verifier_of("p"), binding=None, plus=False).final("c=biws,r=,p=AAAA")


@given(st.text(max_size=60))
def test_arbitrary_messages_of_clients_are_rejected(text: str) -> None:
    challenge = ScramChallenge(verifier_of("p"), binding=None, plus=False)
    with pytest.raises(Rejected):
        challenge.first(text)
    challenge.first("n,,n=,r=abc")
    with pytest.raises(Rejected):
        challenge.final(text)

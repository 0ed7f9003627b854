"""The client side of SCRAM, against the server of a library."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramException, ScramMechanism
from tests.support.examples import examples

from postern.domain.secret import Secret
from postern.protocols.postgres.login.postgres_scram import KeyCache, Keys, Rejected, ScramExchange, derive

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

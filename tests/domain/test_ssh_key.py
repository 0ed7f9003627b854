"""Public keys: which are taken, in which spelling, and what is said of everything else."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import public_keys as keys

from postern.domain.identity.ssh_key import MAX_NAME, check_key_name, public_key
from postern.errors import Invalid

MAKERS: dict[str, Callable[[], str]] = {
    "ssh-ed25519": keys.ed25519_line,
    "ecdsa-sha2-nistp256": keys.ecdsa_line,
    "ecdsa-sha2-nistp384": lambda: keys.ecdsa_line("nistp384"),
    "ecdsa-sha2-nistp521": lambda: keys.ecdsa_line("nistp521"),
    "ssh-rsa": keys.rsa_line,
    "sk-ssh-ed25519@openssh.com": lambda: keys.sk_line("sk-ssh-ed25519@openssh.com"),
    "sk-ecdsa-sha2-nistp256@openssh.com": lambda: keys.sk_line("sk-ecdsa-sha2-nistp256@openssh.com"),
}


@pytest.mark.parametrize("algorithm", MAKERS)
def test_what_openssh_makes_is_taken_and_its_comment_dropped(algorithm: str, tmp_path: Path) -> None:
    made = MAKERS[algorithm]()
    found = public_key(f"  {made} ann@laptop, the grey one\n")
    assert (found.algorithm, found.text) == (algorithm, made)
    (tmp_path / "key.pub").write_text(made + "\n")
    shown = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "key.pub"], capture_output=True, check=True, text=True)
    assert found.fingerprint == shown.stdout.split()[1]


@pytest.mark.parametrize("algorithm", MAKERS)
def test_a_key_with_anything_missing_or_left_over_is_refused(algorithm: str) -> None:
    made = MAKERS[algorithm]()
    blob = base64.b64decode(made.split()[1])
    for changed in (blob[:-1], blob + b"\0", blob + keys.string(b""), blob[:4], b"", blob[:-1] + b""):
        with pytest.raises(Invalid):
            public_key(f"{algorithm} {base64.b64encode(changed).decode()}")


def test_a_key_under_the_name_of_another_kind_is_refused() -> None:
    with pytest.raises(Invalid, match="a different type"):
        public_key("ssh-rsa " + keys.ed25519_line().split()[1])
    curve = keys.ecdsa_line("nistp384").split()[1]
    with pytest.raises(Invalid, match="a different type"):
        public_key(f"ecdsa-sha2-nistp256 {curve}")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: "ssh-dss AAAA", "DSA keys are too weak"),
        (lambda: keys.rsa_line(1024), "2048 to 16384 bits, and this one has 1024"),
        (lambda: f'from="10.0.0.0/8" {keys.ed25519_line()}', "options before a key"),
        (lambda: f"no-pty,command=x {keys.ed25519_line()}", "options before a key"),
        (lambda: f"cert-authority {keys.ed25519_line()}", "options before a key"),
        (lambda: f"restrict {keys.ed25519_line()}", "options before a key"),
        (lambda: f"{keys.ed25519_line()}\n{keys.ed25519_line()}", "one public key on one line"),
        (lambda: "ssh-ed25519-cert-v01@openssh.com AAAA", "this is a certificate"),
        (lambda: "---- BEGIN SSH2 PUBLIC KEY ----\nAAAA\n", "ssh-keygen -i -f"),
        (lambda: "ssh-ed448 AAAA", "the algorithm 'ssh-ed448' is not supported"),
        (lambda: "ssh-ed25519", "cannot be read"),
        (lambda: "ssh-ed25519 !!!!", "cannot be read"),
        (lambda: keys.ed25519_line() + "=", "cannot be read"),
        (lambda: "", "needs one public key"),
        (lambda: "ssh-ed25519 " + "A" * 10_000, "needs one public key"),
        (lambda: keys.sk_line("sk-ssh-ed25519@openssh.com", b"https://example.com"), "was not enrolled for SSH"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_everything_else_is_refused_with_what_to_do(make: Callable[[], str], says: str) -> None:
    with pytest.raises(Invalid, match=says):
        public_key(make())


def test_a_private_key_is_noticed_and_not_repeated() -> None:
    pasted = keys.private_key()
    body = "".join(pasted.splitlines()[1:-1])
    putty = f"PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n{body}"
    for text in (pasted, body, pasted.replace("\n", " "), putty, f"ssh-ed25519 {pasted}"):
        with pytest.raises(Invalid, match="this is a private key") as caught:
            public_key(text)
        assert body[:20] not in str(caught.value)


@given(st.text(max_size=200))
def test_what_is_no_key_is_never_repeated(text: str) -> None:
    word = "hunter2-" + text
    with pytest.raises(Invalid) as caught:
        public_key(word)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("exponent", "modulus"), [(1, 2**2047 + 1), (4, 2**2047 + 1), (2**65 + 1, 2**2047 + 1), (3, 2**2047)]
)
def test_rsa_keys_that_prove_nothing_are_refused(exponent: int, modulus: int) -> None:
    blob = b"".join(keys.string(number.to_bytes(number.bit_length() // 8 + 1, "big")) for number in (exponent, modulus))
    with pytest.raises(Invalid):
        public_key(keys.line("ssh-rsa", blob))


def test_an_rsa_key_has_one_spelling() -> None:
    modulus = 2**2047 + 1
    padded = keys.string(b"\0\0\0" + modulus.to_bytes(256, "big"))
    with pytest.raises(Invalid, match="cannot be read"):
        public_key(keys.line("ssh-rsa", keys.string(b"\3") + padded))


def test_names_are_one_printable_line() -> None:
    assert check_key_name(" laptop ") == "laptop"
    for name in ("", "  ", "a\nb", "a\x1b[1m", "x" * (MAX_NAME + 1)):
        with pytest.raises(Invalid, match="name: "):
            check_key_name(name)

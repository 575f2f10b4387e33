"""Would the tests notice a mistake? `python -m benchmarks.tools.mutants`.

Makes one small mistake at a time (`benchmarks/tools/mutations.py`) and runs the tests of that
module (`benchmarks/tools/mutant_tests.py`). A mutant that fails no test has survived: either a test
is missing, or the mistake changes nothing. The modules and their tests are in `TARGETS`.

Each verdict is appended to a table, and a mutant that is in the table is not run again. Survivors
that were reviewed and change nothing are listed, with the reason, in `equivalent_mutants.toml`.
"""

import argparse
import gc
import json
import os
import random
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.tools.mutant_tests import Copy, judge
from benchmarks.tools.mutations import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path("build/mutants.jsonl")
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
CORE, ORCHESTRATOR = "tests/unit/tardis_core", "tests/unit/orchestrator"


def _model_tests(*names: str) -> tuple[str, ...]:
    return tuple(f"{CORE}/models/test_{name}.py" for name in names)


_KERNEL_TESTS = (
    f"{CORE}/kernels/test_kernel_equality.py",
    f"{CORE}/kernels/test_backend_choice.py",
)
_BOUNDS = f"{CORE}/test_setting_bounds.py"
# The modules, and the tests that must notice a mistake in them.
TARGETS: Mapping[str, Sequence[str]] = {
    "tardis_core/models/addressing.py": _model_tests("addressing", "memory"),
    "tardis_core/models/base.py": (
        *_model_tests("base", "dropout", "network", "controller"),
        _BOUNDS,
    ),
    "tardis_core/models/controller.py": (*_model_tests("controller"), _BOUNDS),
    "tardis_core/models/heads.py": _model_tests("heads", "network"),
    "tardis_core/models/memory.py": _model_tests("memory", "addressing"),
    "tardis_core/models/network.py": _model_tests("network", "heads"),
    "tardis_core/models/tardis.py": (
        *_model_tests("tardis", "memory", "addressing", "against_numpy"),
        _BOUNDS,
    ),
    "tardis_core/models/tardis_tensors.py": _KERNEL_TESTS,
    **{
        f"tardis_core/estimators/{name}.py": (
            *(f"{CORE}/estimators/test_{each}.py" for each in ("estimator_contract", *tests)),
            _BOUNDS,
        )
        for name, tests in {
            "base": ("straight_through", "gumbel", "reinforce"),
            "counterfactual": ("counterfactual_estimator",),
            "entmax": ("soft",),
            "gumbel": ("gumbel", "straight_through"),
            "gumbel_rao": ("straight_through",),
            "noise": ("gumbel", "straight_through"),
            "policy": ("reinforce", "counterfactual_estimator"),
            "reinforce": ("reinforce",),
            "reinmax": ("straight_through",),
            "rloo": ("rloo",),
            "soft": ("soft",),
            "softmaxes": ("straight_through",),
            "straight_through": ("straight_through",),
        }.items()
    },
    **{
        f"tardis_core/training/{name}.py": (f"{CORE}/training/test_{name}.py", _BOUNDS)
        for name in (
            *("adam", "best", "checkpoint", "memory_need", "microbatches", "precision", "schedule"),
            *("run_folder", "tensorboard"),
        )
    },
    "tardis_core/training/counterfactual.py": (
        f"{CORE}/training/test_counterfactual.py",
        f"{CORE}/training/test_objective.py",
    ),
    "tardis_core/training/loop.py": (f"{CORE}/training/test_loop.py",),
    "tardis_core/training/objective.py": (
        f"{CORE}/training/test_objective.py",
        f"{CORE}/estimators/test_reinforce.py",
        f"{CORE}/training/test_counterfactual.py",
    ),
    "orchestrator/comparison/stats.py": (f"{ORCHESTRATOR}/comparison/test_stats.py",),
    "orchestrator/execution/search.py": (
        f"{ORCHESTRATOR}/execution/test_search.py",
        f"{ORCHESTRATOR}/execution/schedulers/test_promote.py",
    ),
    "orchestrator/tracking/recorder.py": (f"{ORCHESTRATOR}/tracking/test_recorder.py",),
    "orchestrator/results/records.py": (f"{ORCHESTRATOR}/results/test_records.py",),
}
# Imported once and inherited by the process of every mutant.
LIBRARIES: Mapping[str, Sequence[str]] = {
    "tardis_core": ("torch", "hypothesis"),
    "orchestrator": ("pandas", "scipy.stats", "optuna", "mlflow", "ray.tune"),
}


def sample_of(root: Path, path: str, count: int | None, seed: int) -> list[Mutant]:
    """Mutants of a module in a random order, or the first of them: more continue a sample."""
    mutants = list(mutants_of(path, (root / path).read_text()))
    random.Random(f"{seed} {path}").shuffle(mutants)
    return mutants[:count]


class Table:
    """The verdicts so far, in a file that grows by one row per verdict; a later one counts."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()  # the tests run in another folder
        path.parent.mkdir(parents=True, exist_ok=True)
        self._terminal = os.dup(1)  # the tests have a silent one

    def verdicts(self) -> dict[str, str]:
        """By the keys of the mutants."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return {row["key"]: row["verdict"] for row in map(json.loads, lines)}

    def record(self, mutant: Mutant, verdict: str, by: str) -> None:
        """Add a verdict and say so."""
        row = {"key": mutant.key, "verdict": verdict, "path": mutant.path, "line": mutant.line}
        row |= {"text": mutant.text, "change": mutant.change, "by": by}
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        line = f"{verdict:<8} {mutant.path}:{mutant.line}: {mutant.change}\n"
        os.write(self._terminal, line.encode())


Reviewed = Mapping[tuple[str, str, str], str]  # reasons by path, line and change


def load_equivalent(path: Path) -> Reviewed:
    """The mutants that were reviewed and change nothing."""
    modules = tomllib.loads(path.read_text()) if path.exists() else {}
    return {
        (module, row["line"], row["change"]): row["why"]
        for module, rows in modules.items()
        for row in rows
    }


def final_verdict(mutant: Mutant, verdicts: Mapping[str, str], equivalent: Reviewed) -> str:
    """`killed`, `equivalent`, `survived`, or `not run`."""
    verdict = verdicts.get(mutant.key, "not run")
    if verdict == "survived" and (mutant.path, mutant.text, mutant.change) in equivalent:
        return "equivalent"
    return "killed" if verdict == "timeout" else verdict


def summary(mutants: Iterable[Mutant], verdicts: Mapping[str, str], equivalent: Reviewed) -> str:
    """The survivors, and the kill rate of each module."""
    counts: dict[str, Counter[str]] = {}
    survivors = []
    for mutant in sorted(mutants):
        verdict = final_verdict(mutant, verdicts, equivalent)
        counts.setdefault(mutant.path, Counter())[verdict] += 1
        if verdict == "survived":
            survivors.append(f"{mutant.path}:{mutant.line}: {mutant.change}    [{mutant.text}]")
    lines = [*survivors, "", "| module | mutants | killed | survived | equivalent | rate |"]
    lines.append("|---|---|---|---|---|---|")
    lines += [_rates(f"`{path}`", count) for path, count in counts.items()]
    total = sum(counts.values(), Counter())
    lines.append(_rates("all", total))
    return "\n".join([*lines, "", f"{total['not run']} mutants are still to be run"])


def _rates(name: str, count: Counter[str]) -> str:
    killed, survived = count["killed"], count["survived"]
    rate = 100 * killed / max(1, killed + survived)
    total = killed + survived + count["equivalent"]
    return f"| {name} | {total} | {killed} | {survived} | {count['equivalent']} | {rate:.1f} % |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run mutants and print the kill rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, help="mutants per module (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this many minutes")
    parser.add_argument("--only", default="", help="part of the path of the modules to mutate")
    parser.add_argument("--survivors", action="store_true", help="run those that survived again")
    parser.add_argument("--table", type=Path, default=TABLE, help=f"results (default: {TABLE})")
    options = parser.parse_args(arguments)

    end = time.monotonic() + 60 * options.minutes
    table, equivalent = Table(options.table), load_equivalent(EQUIVALENT)
    modules = {
        path: sample_of(ROOT, path, options.sample, options.seed)
        for path in TARGETS
        if options.only in path
    }
    _judge_all(modules, table, equivalent, options.survivors, end)
    every = [mutant for mutants in modules.values() for mutant in mutants]
    print(summary(every, table.verdicts(), equivalent))
    return 0


def _judge_all(
    modules: Mapping[str, Sequence[Mutant]],
    table: Table,
    equivalent: Reviewed,
    again: bool,
    end: float,
) -> None:
    """Judge the mutants that are not in the table and, if asked for, the survivors."""
    verdicts = table.verdicts()
    wanted = ("not run", "survived") if again else ("not run",)
    todo = {
        path: [each for each in mutants if final_verdict(each, verdicts, equivalent) in wanted]
        for path, mutants in modules.items()
    }
    if not any(todo.values()):
        return
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for path, mutants in todo.items():
        if mutants and time.monotonic() < end:
            for library in LIBRARIES.get(path.partition("/")[0], ()):
                import_module(library)
            gc.freeze()  # what was imported is not searched for garbage in every process
            print(f"{path}: {len(mutants)} mutants", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                copy = Copy(ROOT, Path(folder))
                judge(copy, mutants, TARGETS[path], end, table.record)


if __name__ == "__main__":
    sys.exit(main())

"""Would the tests notice a mistake? `python -m benchmarks.tools.mutants`.

Makes one small mistake at a time in a copy of the project (`<` becomes `<=`, `and` becomes `or`, a
statement goes missing) and runs the tests of that module. A mutant that fails no test has survived:
either a test is missing, or the mistake changes nothing. The modules and their tests are in
`TARGETS`.

Mutants are run in a random order that depends on the seed alone, and each result is appended to a
table, so that a larger `--count` continues a smaller one.
"""

import argparse
import ast
import gc
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path("build/mutants.jsonl")
CORE, ORCHESTRATOR = "tests/unit/tardis_core", "tests/unit/orchestrator"
_MODEL_TESTS = tuple(
    f"{CORE}/models/test_{name}.py"
    for name in (
        "memory",
        "addressing",
        "controller",
        "heads",
        "network",
        "tardis_properties",
        "against_numpy",
        "vary_cells",
        "contract",
    )
)
_MODEL_TESTS += (f"{CORE}/estimators/test_gumbel.py",)  # the noise of the reads, too
# The modules, and the tests that must notice a mistake in them, fast ones first.
TARGETS: Mapping[str, Sequence[str]] = {
    **{
        f"tardis_core/models/{name}.py": _MODEL_TESTS
        for name in ("addressing", "base", "controller", "heads", "memory", "network", "tardis")
    },
    "tardis_core/models/tardis_tensors.py": (f"{CORE}/kernels/test_kernel_equality.py",),
    **{
        f"tardis_core/estimators/{name}.py": (f"{CORE}/estimators",)
        for name in (
            *("base", "counterfactual", "entmax", "gumbel", "gumbel_rao", "policy", "reinforce"),
            *("reinmax", "rloo", "soft", "softmaxes", "straight_through"),
        )
    },
    **{
        f"tardis_core/training/{name}.py": (f"{CORE}/training/test_{name}.py",)
        for name in ("best", "checkpoint", "counterfactual", "microbatches", "schedule")
    },
    "tardis_core/training/loop.py": (
        f"{CORE}/training/test_objective.py",
        f"{CORE}/training/test_loop.py",
        f"{CORE}/training/test_microbatches.py",
        f"{CORE}/training/test_resume.py",
    ),
    "tardis_core/training/objective.py": (
        f"{CORE}/training/test_objective.py",
        f"{CORE}/estimators/test_reinforce.py",
        f"{CORE}/training/test_counterfactual.py",
    ),
    "orchestrator/comparison/stats.py": (f"{ORCHESTRATOR}/comparison/test_stats.py",),
    "orchestrator/execution/search.py": (f"{ORCHESTRATOR}/execution/test_search.py",),
    "orchestrator/tracking/recorder.py": (f"{ORCHESTRATOR}/tracking/test_recorder.py",),
    "orchestrator/results/records.py": (f"{ORCHESTRATOR}/results/test_records.py",),
}
# Imported once and inherited by the process of every mutant.
LIBRARIES = ("torch", "pandas", "scipy.stats", "optuna", "hypothesis", "mlflow", "ray.tune")
SWAPS: Mapping[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Declarations, not decisions: defaults of settings, and checks of lengths that always agree.
SKIPPED_CALLS, SKIPPED_KEYWORDS = ("setting",), ("strict",)


class Mutant(NamedTuple):
    """One mistake."""

    path: str  # of the module, from the root of the project
    line: int
    change: str  # for people: before -> after
    source: str  # of the whole module, with the mistake

    @property
    def key(self) -> str:
        """Identifies the mutant in the table."""
        return hashlib.sha256(f"{self.path}\n{self.source}".encode()).hexdigest()[:16]


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """All mutants of a module, in the order of its lines."""
    tree = ast.parse(source)
    for node in _mutable_nodes(tree):
        for apply, undo in _edits(node):
            before = ast.unparse(node)
            apply()
            after = "" if _is_pass(node) else ast.unparse(node)
            change = f"{_short(before)} -> {_short(after) or 'removed'}"
            yield Mutant(path, getattr(node, "lineno", 0), change, ast.unparse(tree))
            undo()


def _mutable_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that are run: neither annotations and decorators nor declarations."""
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_skipped(child):
                yield from _mutable_nodes(child)


def _is_skipped(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in SKIPPED_CALLS
    return isinstance(node, ast.keyword) and node.arg in SKIPPED_KEYWORDS


Edit = tuple[Callable[[], None], Callable[[], None]]  # apply and undo


def _edits(node: ast.AST) -> Iterator[Edit]:
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                yield _set_item(ops, place, SWAPS[type(op)]())
        case ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in SWAPS:
            yield _set(node, "op", SWAPS[type(op)]())
        case ast.Constant(value=bool(value)):
            yield _set(node, "value", not value)
        case ast.Constant(value=int(value) | float(value)):
            yield _set(node, "value", value + 1)
        case ast.Name(id=name, ctx=ast.Load()) if name in NAMES:
            yield _set(node, "id", NAMES[name])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _become(node, operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield _become(node, operand)
        case ast.Call(func=ast.Attribute(value=value, attr="detach")):
            yield _become(node, value)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield _set(node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.AST()):
            yield _set(node, "value", None)
    if isinstance(node, ast.AugAssign | ast.Raise | ast.Continue) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield _become(node, ast.Pass())


def _set(node: ast.AST, field: str, value: Any) -> Edit:
    before = getattr(node, field)
    return lambda: setattr(node, field, value), lambda: setattr(node, field, before)


def _set_item(items: list[Any], place: int, value: Any) -> Edit:
    before = items[place]
    return lambda: items.__setitem__(place, value), lambda: items.__setitem__(place, before)


def _become(node: ast.AST, other: ast.AST) -> Edit:
    """Turn a node into another one in its place: its parent need not be known."""
    kind, fields = type(node), dict(node.__dict__)

    def apply() -> None:
        node.__class__ = type(other)
        node.__dict__.update(other.__dict__)

    def undo() -> None:
        node.__class__ = kind
        node.__dict__.clear()
        node.__dict__.update(fields)

    return apply, undo


def _is_pass(node: ast.AST) -> bool:
    return isinstance(node, ast.Pass)


def _short(text: str) -> str:
    line = text.split("\n")[0]
    return line if len(line) <= 60 else line[:57] + "..."


class Runner:
    """Runs tests in a copy of the project."""

    def __init__(self, root: Path, copy: Path) -> None:
        self.copy = copy
        ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "runs", "sweeps", "*.db")
        shutil.copytree(root, copy, ignore=ignored, dirs_exist_ok=True)
        self._limits: dict[Sequence[str], float] = {}

    def verdict(self, mutant: Mutant, tests: Sequence[str]) -> str:
        """`killed`, `timeout` (which is a kill: the tests hang) or `survived`."""
        limit = self._limit(tests)
        original = (self.copy / mutant.path).read_text()
        self._write(mutant.path, mutant.source)
        try:
            code = self._run(tests, limit)
        finally:
            self._write(mutant.path, original)
        return "timeout" if code is None else "survived" if code == 0 else "killed"

    def _write(self, path: str, source: str) -> None:
        """Also drop the compiled code: Python would trust one of the same second and length."""
        file = self.copy / path
        file.write_text(source)
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            compiled.unlink()

    def _limit(self, tests: Sequence[str]) -> float:
        """Seconds after which tests hang: several times what they take without a mistake."""
        if tests not in self._limits:
            start = time.monotonic()
            if self._run(tests, 600) != 0:
                raise SystemExit(f"without a mistake these tests must pass: {' '.join(tests)}")
            self._limits[tests] = 10 + 3 * (time.monotonic() - start)
        return self._limits[tests]

    def _run(self, tests: Sequence[str], limit: float) -> int | None:
        """The exit code of pytest in a process of its own; None if it took too long."""
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _test_and_exit(self.copy, tests)
        end = time.monotonic() + limit
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None


def _test_and_exit(copy: Path, tests: Sequence[str]) -> None:
    """Run pytest in this forked process, silently; never returns."""
    code = 70
    try:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.chdir(copy)
        sys.path.insert(0, str(copy))
        for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
            del sys.modules[name]
        options = ["-o", "addopts=", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
        plugin = ["-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0"]
        code = int(pytest.main([*options, *plugin, "--basetemp", f"{copy}-tmp", *tests]))
    finally:
        os._exit(code)


def all_mutants(root: Path, paths: Iterable[str], seed: int) -> list[Mutant]:
    """Every mutant of these modules, shuffled."""
    mutants = [mutant for path in paths for mutant in mutants_of(path, (root / path).read_text())]
    random.Random(seed).shuffle(mutants)
    return mutants


def load(table: Path) -> dict[str, str]:
    """The verdicts so far, by the mutants' keys; a later one counts."""
    lines = table.read_text().splitlines() if table.exists() else []
    return {row["key"]: row["verdict"] for row in map(json.loads, lines)}


def append(table: Path, mutant: Mutant, verdict: str) -> None:
    """Add one verdict to the table."""
    row = {"key": mutant.key, "verdict": verdict}
    row |= {"path": mutant.path, "line": mutant.line, "change": mutant.change}
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("a") as file:
        file.write(json.dumps(row) + "\n")


def summary(mutants: Sequence[Mutant], verdicts: Mapping[str, str], total: int) -> str:
    """Kill rates per module, and the survivors."""
    judged = [mutant for mutant in mutants if mutant.key in verdicts]
    survivors = [mutant for mutant in judged if verdicts[mutant.key] == "survived"]
    counts, alive = Counter(m.path for m in judged), Counter(m.path for m in survivors)
    lines = [f"{each.path}:{each.line}: {each.change}" for each in sorted(survivors)]
    lines += ["", "| module | mutants | killed |", "|---|---|---|"]
    for path in sorted(counts):
        lines.append(_rate(f"`{path}`", counts[path], alive[path]))
    lines.append(_rate("all", len(judged), len(survivors)))
    return "\n".join([*lines, "", f"{len(judged)} of {total} possible mutants were run"])


def _rate(name: str, count: int, alive: int) -> str:
    return f"| {name} | {count} | {100 * (count - alive) / max(1, count):.1f} % |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run mutants and print the kill rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="mutants to run (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="of their order (default: 0)")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--only", default="", help="part of the path of the modules to mutate")
    parser.add_argument("--survivors", action="store_true", help="run those that survived again")
    parser.add_argument("--table", type=Path, default=TABLE, help=f"results (default: {TABLE})")
    options = parser.parse_args(arguments)

    every = [m for m in all_mutants(ROOT, TARGETS, options.seed) if options.only in m.path]
    chosen, verdicts = every[: options.count], load(options.table)
    again = ("survived",) if options.survivors else ()
    todo = [m for m in chosen if verdicts.get(m.key, "new") in ("new", *again)]
    _run_all(todo, options, verdicts)
    print(summary(chosen, verdicts, len(every)))
    return 0


def _run_all(todo: Sequence[Mutant], options: argparse.Namespace, verdicts: dict[str, str]) -> None:
    if not todo:
        return
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for library in LIBRARIES:
        import_module(library)
    gc.freeze()  # what was imported is not searched for garbage in every process
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(ROOT, Path(folder) / "project")
        for number, mutant in enumerate(todo, start=1):
            if time.monotonic() > end:
                break
            verdict = runner.verdict(mutant, TARGETS[mutant.path])
            verdicts[mutant.key] = verdict
            append(options.table, mutant, verdict)
            place = f"{mutant.path}:{mutant.line}"
            print(f"{number}/{len(todo)} {verdict:<8} {place}: {mutant.change}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

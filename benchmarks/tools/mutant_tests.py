"""The tests of a module against its mutants, in one process that has imported everything.

The tests are collected once. A run of all of them shows which tests call which function, and how
long they take. Then every mutant is a fork in which the function with the mistake gets the code
with the mistake, and the tests that call it run up to the first failure: the fast ones first, and
those that have noticed other mistakes.

A mistake outside of functions, or in one that runs while modules are imported, needs modules that
are imported anew: such a mutant is written to the copy of the project and its tests are collected
again.
"""

import gc
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import pytest

from benchmarks.tools.mutations import Mutant

OPTIONS = ("-o", "addopts=", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow")
PLUGINS = ("-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0")
SPARE_SECONDS = 20  # on a busy machine
PASSED, FAILED = 0, 1  # exit codes, of pytest as well
BROKEN = 70  # exit code of work that raises an error: this program is wrong, not the mutant

Record = Callable[[Mutant, str, str], None]  # of a verdict, and the test that noticed the mistake


class Copy:
    """A copy of the project, in which modules may be changed, and a folder for notes."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = folder / "project", folder
        ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "runs", "sweeps", "*.db")
        shutil.copytree(root, self.root, ignore=ignored)

    def write(self, path: str, source: str) -> None:
        """Also drop the compiled code: Python would trust one of the same second and length."""
        file = self.root / path
        file.write_text(source)
        for compiled in file.parent.glob(f"__pycache__/{file.stem}.*.pyc"):
            compiled.unlink()


class Calls(NamedTuple):
    """What was noted in a run of all tests."""

    functions: dict[str, list[str]]  # those of the module that a test calls, by test
    seconds: dict[str, float]  # by test
    importing: list[str]  # functions that are called while modules are imported

    @classmethod
    def load(cls, copy: Copy) -> "Calls":
        """As `_Judge` has noted them."""
        return cls(**json.loads((copy.folder / "calls.json").read_text()))

    def tests_of(self, function: str) -> list[str]:
        """The tests that call a function."""
        return [test for test, functions in self.functions.items() if function in functions]


def judge(
    copy: Copy, mutants: Sequence[Mutant], tests: Sequence[str], end: float, record: Record
) -> None:
    """Record the verdicts on the mutants of one module until the time `end`.

    They are `killed`, `timeout` (which is a kill: the tests hang) and `survived`.
    """
    recollected = copy.folder / "anew.json"
    recollected.write_text("[]")
    plugin = _Judge(copy, mutants, end, record)
    if in_fork(lambda: _pytest(copy, tests, plugin)) != PASSED:
        output = (copy.folder / "output.txt").read_text()
        names = " ".join(tests)
        raise SystemExit(f"{output}\nwithout a mistake these tests must pass: {names}")
    keys, calls = json.loads(recollected.read_text()), Calls.load(copy)
    for mutant in (each for each in mutants if each.key in keys):
        if time.monotonic() > end:
            break
        limit = _limit(sum(calls.seconds.values()))
        record(mutant, _imported_anew(copy, mutant, tests, limit), "")


def _imported_anew(copy: Copy, mutant: Mutant, tests: Sequence[str], limit: int) -> str:
    original = (copy.root / mutant.path).read_text()
    copy.write(mutant.path, mutant.source)
    try:
        return _verdict(in_fork(lambda: _pytest(copy, tests), limit))
    finally:
        copy.write(mutant.path, original)


def _limit(seconds: float) -> int:
    """Seconds after which tests hang: several times what they take without a mistake."""
    return int(SPARE_SECONDS + 5 * seconds)


def _verdict(code: int) -> str:
    if code == BROKEN:
        raise SystemExit("the tests could not be run")
    return "survived" if code == PASSED else "timeout" if code == -signal.SIGALRM else "killed"


def in_fork(work: Callable[[], int], limit: int = 0) -> int:
    """The exit code of work in a process of its own, which an alarm ends after `limit` seconds."""
    child = os.fork()
    if child == 0:
        code = BROKEN
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(limit)
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _pytest(copy: Copy, tests: Sequence[str], *plugins: object) -> int:
    """Run pytest in this forked process, with its output in a file."""
    output = os.open(copy.folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(copy.root)
    sys.path.insert(0, str(copy.root))
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmarks"]:
        del sys.modules[name]
    _without_deadlines()
    with _temporary(copy):
        return int(pytest.main([*OPTIONS, *PLUGINS, *tests], plugins=list(plugins)))


def _without_deadlines() -> None:
    """A slow machine is not a mistake."""
    from hypothesis import settings

    settings.register_profile("mutants", deadline=None)
    settings.load_profile("mutants")


class _temporary:
    """A folder for the temporary files of tests, which pytest asks for when it needs it."""

    def __init__(self, copy: Copy) -> None:
        self._folder = copy.folder / f"temporary-{os.getpid()}"

    def __enter__(self) -> None:
        self._folder.mkdir()
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(self._folder)

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class _Judge:
    """A plugin of pytest: instead of running the tests it has collected, it judges mutants."""

    def __init__(self, copy: Copy, mutants: Sequence[Mutant], end: float, record: Record) -> None:
        self._copy, self._mutants, self._end, self._record = copy, mutants, end, record
        self._path = mutants[0].path
        self._file = str(copy.root / self._path)
        self._called: set[str] = set()
        self._called_in_setup: dict[str, set[str]] = defaultdict(set)  # by file
        self._kills: Counter[str] = Counter()  # by test

    def pytest_sessionstart(self) -> None:
        """Watch which functions are called while the tests are imported."""
        self._watch(self._note_call)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judge the mutants."""
        import_module(self._path.removesuffix(".py").replace("/", "."))
        if in_fork(lambda: self._note_calls(session)) != PASSED:
            session.testsfailed = 1
            return True
        self._watch(None)
        calls, functions = Calls.load(self._copy), _functions_of(self._file)
        recollected = []
        for mutant in self._mutants:
            if time.monotonic() > self._end:
                break
            function = functions.get(mutant.function)
            code = function and _code_with(mutant, function)
            if function is None or code is None or mutant.function in calls.importing:
                recollected.append(mutant.key)
            else:
                self._judge(session, mutant, calls, function, code)
        (self._copy.folder / "anew.json").write_text(json.dumps(recollected))
        return True

    def _judge(
        self,
        session: pytest.Session,
        mutant: Mutant,
        calls: Calls,
        function: FunctionType,
        code: CodeType,
    ) -> None:
        tests = calls.tests_of(mutant.function)
        tests.sort(key=lambda test: calls.seconds[test] / (1 + self._kills[test]))
        killer = self._copy.folder / "killer"
        killer.write_text("")

        def work() -> int:
            function.__code__ = code
            return self._first_failure(session, tests, killer)

        limit = _limit(sum(calls.seconds[test] for test in tests))
        verdict = _verdict(in_fork(work, limit))
        self._kills[killer.read_text()] += 1
        self._record(mutant, verdict, killer.read_text())

    def _first_failure(self, session: pytest.Session, tests: Sequence[str], note: Path) -> int:
        """Run tests up to the first failure and note which it was."""
        by_name = {item.nodeid: item for item in session.items}
        with _temporary(self._copy):
            for test, item, following in _with_next([by_name[test] for test in tests]):
                note.write_text(test)
                try:
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                except BaseException:  # pytest passes on Ctrl-C, which some tests press
                    return FAILED
                if session.testsfailed:
                    return FAILED
        note.write_text("")
        return PASSED

    def _note_calls(self, session: pytest.Session) -> int:
        """Run all tests and note what each calls."""
        importing, functions, seconds = sorted(self._called), {}, {}
        with _temporary(self._copy):
            for test, item, following in _with_next(session.items):
                self._called.clear()
                start = time.monotonic()
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                seconds[test], functions[test] = time.monotonic() - start, set(self._called)
        for test, called in functions.items():
            called |= self._called_in_setup[test.partition("::")[0]]
        calls = Calls({test: sorted(each) for test, each in functions.items()}, seconds, importing)
        (self._copy.folder / "calls.json").write_text(json.dumps(calls._asdict()))
        return FAILED if session.testsfailed else PASSED

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A fixture may serve all tests of a file."""
        if report.when == "setup":
            self._called_in_setup[report.nodeid.partition("::")[0]] |= self._called

    def _watch(self, observer: Callable[..., None] | None) -> None:
        sys.setprofile(observer)
        threading.setprofile(observer)

    def _note_call(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename == self._file:
            self._called.add(frame.f_code.co_qualname.partition(".<locals>")[0])


def _with_next(items: Sequence[pytest.Item]) -> Any:
    """Names, items, and the items that follow them."""
    return zip([item.nodeid for item in items], items, [*items[1:], None], strict=False)


def _functions_of(file: str) -> dict[str, FunctionType]:
    """The functions of a module by their qualified names; those that share a name are left out."""
    gc.unfreeze()  # frozen objects are not found
    functions = defaultdict(list)
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename == file:
            functions[each.__code__.co_qualname].append(each)
    gc.freeze()
    return {name: each[0] for name, each in functions.items() if len(each) == 1}


def _code_with(mutant: Mutant, function: FunctionType) -> CodeType | None:
    """The code of the function with the mistake, if the function can take it."""
    code = _find(compile(mutant.source, function.__code__.co_filename, "exec"), mutant.function)
    fits = code is not None and code.co_freevars == function.__code__.co_freevars
    return code if fits else None


def _find(code: CodeType, name: str) -> CodeType | None:
    for each in code.co_consts:
        if isinstance(each, CodeType) and each.co_qualname == name:
            return each
        if isinstance(each, CodeType) and name.startswith(f"{each.co_qualname}."):
            return _find(each, name)
    return None

"""The mutation tool: the mistakes it makes, and whether it sees which of them tests notice."""

import ast
import json
import signal
import time

import pytest

from benchmarks.tools import mutant_tests, mutants
from benchmarks.tools.mutations import mutants_of


def changes(source):
    return [mutant.change for mutant in mutants_of("module.py", source)]


@pytest.mark.parametrize(
    ("source", "change"),
    [
        ("a < b", "a < b -> a <= b"),
        ("a is None", "a is None -> a is not None"),
        ("a and b", "a and b -> a or b"),
        ("a + b", "a + b -> a - b"),
        ("a = 2", "2 -> 3"),
        ("a = True", "True -> False"),
        ("a = min(b)", "min -> max"),
        ("a = not b", "not b -> b"),
        ("a = b.detach()", "b.detach() -> b"),
        ("f(a)", "f(a) -> removed"),
        ("a += b", "a += b -> removed"),
        ("a = b if c else d", "b if c else d -> b if not c else d"),
        ("def f():\n    return a", "return a -> return"),
    ],
)
def test_each_kind_of_mistake(source, change):
    assert change in changes(source)


def test_declarations_are_left_alone():
    source = "x: Literal[1] = setting(2, 'text')\n\n@cache(3)\ndef f() -> Literal[4]:\n    'text'\n"
    assert changes(source) == []


@pytest.mark.parametrize(
    "source",
    [
        "raise ValueError(f'{a[:3]}')",
        "require(a, f'{b - 1}')",
        "assert a, f'{b + 1}'",
        "if TYPE_CHECKING:\n    import a",
        "class A:\n    def __repr__(self):\n        return 'a' if b else 'c'",
        "zip(a, b, strict=True)",
        "def f():\n    return None",
    ],
)
def test_text_for_people_and_checks_of_types_are_left_alone(source):
    assert [change for change in changes(source) if not change.endswith("removed")] == []


def test_a_mutant_is_that_of_the_outermost_function():
    source = """a = 1
def f(b=2):
    def g():
        return 3
    c = 4
class A:
    d = 5
    def f(self):
        return 6
"""
    every = list(mutants_of("module.py", source))
    numbers = {each.change[0]: each.function for each in every if each.change[0].isdigit()}
    assert numbers == {"1": "", "2": "", "3": "f", "4": "f", "5": "", "6": "A.f"}
    assert {each.text for each in every if each.change == "6 -> 7"} == {"return 6"}


def test_a_mutant_has_one_mistake_and_the_rest_of_the_module():
    source = "def f(a):\n    if not a:\n        g(a)\n    return a + 1"
    whole = ast.unparse(ast.parse(source)).splitlines()
    every = list(mutants_of("module.py", source))
    assert len({mutant.key for mutant in every}) == len(every) > 4
    for mutant in every:
        lines = mutant.source.splitlines()
        assert sum(one != other for one, other in zip(lines, whole, strict=True)) == 1
        assert lines[mutant.line - 1] != whole[mutant.line - 1]


def test_a_sample_is_that_of_the_seed_and_a_larger_one_continues_it(tmp_path):
    (tmp_path / "module.py").write_text("a = [1, 2, 3, 4, 5, 6, 7, 8, 9]")

    def sample(seed, count=4):
        chosen = mutants.sample_of(tmp_path, "module.py", count, seed)
        return [mutant.change for mutant in chosen]

    assert sample(1) == sample(1) != sample(2)
    assert len(sample(1)) == 4
    assert sample(1, 6)[:4] == sample(1)
    assert (
        sorted(sample(1, None))
        == sorted(sample(2, 99))
        == sorted(changes("[1, 2, 3, 4, 5, 6, 7, 8, 9]"))
    )


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A module with a test that knows nothing of its second function."""
    root = tmp_path / "project_under_test"
    root.mkdir()
    (root / "subject.py").write_text(
        "LIMIT = 3\n\ndef known(a):\n    return a < LIMIT\n\ndef unknown(a):\n    return a > 3\n"
    )
    (root / "test_subject.py").write_text(
        "from subject import known\n\n"
        "def test():\n    assert (known(2), known(3)) == (True, False)\n"
    )
    monkeypatch.setattr(mutants, "ROOT", root)
    monkeypatch.setattr(mutants, "TARGETS", {"subject.py": ("test_subject.py",)})
    monkeypatch.setattr(mutants, "EQUIVALENT", tmp_path / "equivalent.toml")
    for name in ("OMP_NUM_THREADS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        monkeypatch.setenv(name, "1")
    return root


@pytest.mark.slow
def test_mistakes_that_no_test_notices_survive_until_there_is_one(project, tmp_path, capfd):
    table, test = tmp_path / "table.jsonl", project / "test_subject.py"
    assert mutants.main(["--minutes", "0", "--table", str(table)]) == 0
    assert "6 mutants are still to be run" in capfd.readouterr().out
    assert mutants.main(["--table", str(table)]) == 0
    assert "| `subject.py` | 6 | 3 | 3 | 0 | 50.0 % |" in capfd.readouterr().out
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    assert {(row["line"], row["verdict"], row["by"]) for row in rows} == {
        (1, "killed", ""),  # in modules imported anew
        (4, "killed", "test_subject.py::test"),
        (7, "survived", ""),
    }
    assert (project / "subject.py").read_text().count("a < LIMIT") == 1  # that is the original
    mutants.main(["--table", str(table)])  # has nothing left to do
    assert len(table.read_text().splitlines()) == 6

    (tmp_path / "equivalent.toml").write_text(
        '[["subject.py"]]\nline = "return a > 3"\nchange = "3 -> 4"\nwhy = "never 4"\n'
    )
    mutants.main(["--table", str(table)])
    assert "| all | 6 | 3 | 2 | 1 | 60.0 % |" in capfd.readouterr().out

    test.write_text(
        test.read_text() + "\ndef test_other():\n    from subject import unknown\n\n"
        "    assert (unknown(4), unknown(3)) == (True, False)\n"
    )
    mutants.main(["--table", str(table), "--survivors"])
    assert "| all | 6 | 5 | 0 | 1 | 100.0 % |" in capfd.readouterr().out


@pytest.mark.slow
def test_work_that_hangs_is_ended():
    code = mutant_tests.in_fork(lambda: int(time.sleep(60) or 0), limit=1)
    assert code == -signal.SIGALRM
    assert mutant_tests.in_fork(lambda: 1, limit=1) == 1


@pytest.mark.slow
def test_tests_that_fail_without_a_mistake_judge_nothing(project):
    (project / "test_subject.py").write_text("def test():\n    assert False\n")
    with pytest.raises(SystemExit, match="without a mistake these tests must pass: test_subject"):
        mutants.main(["--table", str(project / "table.jsonl")])


def test_every_target_and_its_tests_exist():
    for module, tests in mutants.TARGETS.items():
        assert all((mutants.ROOT / path).exists() for path in (module, *tests))


def test_every_module_of_the_goal_is_a_target():
    for folder in ("models", "estimators", "training"):
        files = (mutants.ROOT / "tardis_core" / folder).glob("[!_]*.py")
        assert {str(path.relative_to(mutants.ROOT)) for path in files} <= set(mutants.TARGETS)


@pytest.mark.slow
def test_every_reviewed_mutant_is_one_and_has_its_reason():
    reviewed = mutants.load_equivalent(mutants.EQUIVALENT)
    assert all(reviewed.values())
    for module in {module for module, _, _ in reviewed}:
        every = {
            (each.path, each.text, each.change)
            for each in mutants.sample_of(mutants.ROOT, module, None, 0)
        }
        assert {key for key in reviewed if key[0] == module} <= every

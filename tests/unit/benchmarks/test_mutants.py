"""The mutation tool: the mistakes it makes, and whether it sees which of them tests notice."""

import ast
import json

import pytest

from benchmarks.tools import mutants


def changes(source):
    return [mutant.change for mutant in mutants.mutants_of("module.py", source)]


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


def test_a_mutant_has_one_mistake_and_the_rest_of_the_module():
    source = "def f(a):\n    if not a:\n        g(a)\n    return a + 1"
    whole = ast.unparse(ast.parse(source)).splitlines()
    every = list(mutants.mutants_of("module.py", source))
    assert len({mutant.key for mutant in every}) == len(every) > 4
    for mutant in every:
        lines = mutant.source.splitlines()
        assert sum(one != other for one, other in zip(lines, whole, strict=True)) == 1
        assert lines[mutant.line - 1] != whole[mutant.line - 1]


def test_the_order_is_that_of_the_seed(tmp_path):
    (tmp_path / "module.py").write_text("a = [1, 2, 3, 4, 5, 6]")

    def order(seed):
        return [mutant.change for mutant in mutants.all_mutants(tmp_path, ["module.py"], seed)]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A module with a test that knows nothing of its second function."""
    root = tmp_path / "project_under_test"
    root.mkdir()
    (root / "subject.py").write_text(
        "def known(a):\n    return a < 3\n\ndef unknown(a):\n    return a > 3\n"
    )
    (root / "test_subject.py").write_text(
        "from subject import known\n\n"
        "def test():\n    assert (known(2), known(3)) == (True, False)\n"
    )
    monkeypatch.setattr(mutants, "ROOT", root)
    monkeypatch.setattr(mutants, "TARGETS", {"subject.py": ("test_subject.py",)})
    monkeypatch.setattr(mutants, "LIBRARIES", ())
    for name in ("OMP_NUM_THREADS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        monkeypatch.setenv(name, "1")
    return root


@pytest.mark.slow
def test_mistakes_that_no_test_notices_survive_until_there_is_one(project, tmp_path, capsys):
    table, test = tmp_path / "table.jsonl", project / "test_subject.py"
    assert mutants.main(["--count", "2", "--table", str(table)]) == 0
    assert "2 of 6 possible mutants were run" in capsys.readouterr().out
    assert mutants.main(["--table", str(table)]) == 0  # continues the table
    output = capsys.readouterr().out
    assert "1/4 " in output
    assert "| `subject.py` | 6 | 50.0 % |" in output
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    assert len(rows) == 6
    assert {(row["line"], row["verdict"]) for row in rows} == {(2, "killed"), (5, "survived")}
    assert (project / "subject.py").read_text().count("a < 3") == 1  # only the copy is changed

    test.write_text(
        test.read_text() + "\ndef test_other():\n    from subject import unknown\n\n"
        "    assert (unknown(4), unknown(3)) == (True, False)\n"
    )
    mutants.main(["--table", str(table), "--survivors"])
    output = capsys.readouterr().out
    assert "3/3 killed" in output
    assert "| all | 6 | 100.0 % |" in output


def test_tests_that_fail_without_a_mistake_judge_nothing(project):
    (project / "test_subject.py").write_text("def test():\n    assert False\n")
    with pytest.raises(SystemExit, match="without a mistake these tests must pass: test_subject"):
        mutants.main(["--table", str(project / "table.jsonl")])


def test_every_target_and_its_tests_exist():
    for module, tests in mutants.TARGETS.items():
        assert all((mutants.ROOT / path).exists() for path in (module, *tests))

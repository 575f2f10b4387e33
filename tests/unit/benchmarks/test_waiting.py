"""The table of the wait policies of threads."""

from benchmarks.speed.waiting import CASES, measure, table


def test_ratios_are_those_of_the_same_round():
    own, slow = [[1.0] * len(CASES), [2.0] * len(CASES)], [[1.5] * len(CASES), [3.0] * len(CASES)]
    rows = table({"": own, "passive": slow}).splitlines()
    assert len(rows) == 2 + len(CASES)
    assert rows[2] == f"| {CASES[0]} | 1500.0 ms | 1.50 |"


def test_a_measurement_has_the_policy_and_the_threads(monkeypatch):
    environments = []

    def run(command, env, **options):
        environments.append(env)
        return type("Done", (), {"stdout": "a word\n[1.0, 2.0]\n"})

    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    assert measure("", 2, 1.0) == measure("passive", 3, 1.0) == [1.0, 2.0]
    assert [env.get("OMP_WAIT_POLICY") for env in environments] == [None, "passive"]
    assert [env["OMP_NUM_THREADS"] for env in environments] == ["2", "3"]

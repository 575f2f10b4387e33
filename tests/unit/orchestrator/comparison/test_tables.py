"""The numbers of a comparison, and verdicts that are never stronger than the runs allow."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from orchestrator.comparison import tables
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import SweepTags
from tardis_core.tasks.base import TASKS
from tests.support.comparisons import compared, data_of


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def rows_of(frame):
    return frame.to_dict("records")


def test_the_summary_of_a_comparison():
    _, comparison = compared({"a": [0.4, 0.2], "b": [0.1, 0.01]})
    values = tables.by_seed(comparison)
    assert values.loc[1].tolist() == [0.4, 0.1]
    table = tables.summary(comparison).set_index("candidate")
    assert table.index.tolist() == ["b", "a"]
    assert table["mean"].to_dict() == pytest.approx({"a": 0.3, "b": 0.055})
    assert table.loc["a", "deviation"] == pytest.approx(0.2 / 2**0.5)
    assert table["solved"].to_dict() == {"a": "0 of 2", "b": "1 of 2"}
    assert "failed" not in table


def curve_of(*values):
    """Validations every 100 updates and 2 seconds."""
    places = np.arange(1, len(values) + 1)
    return pd.DataFrame({"step": 100 * places, "seconds": 2.0 * places, "value": values})


def test_how_soon_a_task_is_solved_counts_runs_that_never_solve_it():
    _, comparison = compared({"slow": [0.3, 0.3, 0.3], "never": [0.5] * 3}, seeds=(1, 2, 3))
    slow, never = comparison.groups
    curves = [curve_of(0.5, 0.01, 0.03), curve_of(0.5, 0.4, 0.019), curve_of(0.5, 0.4, 0.3)]
    runs = tuple(replace(run, curve=curve) for run, curve in zip(slow.runs, curves, strict=True))
    comparison = replace(comparison, groups=(never, replace(slow, runs=runs)))
    first, second = rows_of(tables.until_solved(comparison))
    assert (first["candidate"], first["share"]) == ("slow", pytest.approx(2 / 3))
    assert (first["low"], first["high"]) == pytest.approx((0.2077, 0.9385), abs=1e-4)
    # 200, 300 and never: the median is 300, although one run was sooner.
    assert (first["updates"], first["seconds"]) == (300, 6.0)
    assert first["sequences"] == 300 * slow.config.training.batch
    assert (second["candidate"], second["share"]) == ("never", 0)
    assert np.isnan(second["updates"])
    shares = tables.solved_shares(comparison)
    assert shares.index.tolist() == [*never.runs[0].curve["step"], 100, 200, 300]
    assert shares.loc[[100, 200, 300], "slow"].tolist() == pytest.approx([0, 1 / 3, 2 / 3])
    assert not shares["never"].any()


def test_a_task_that_is_never_solved_has_no_table_of_it():
    _, comparison = compared({"a": [0.4, 0.2]})
    assert tables.until_solved(replace(comparison, task="ptb")).empty


def test_failed_seeds_are_counted_beside_the_mean():
    _, comparison = compared({"a": [0.4, None], "b": [0.1, 0.3]})
    table = tables.summary(comparison).set_index("candidate")
    assert table["failed"].to_dict() == {"a": 1, "b": 0}
    assert table["runs"].to_dict() == {"a": 1, "b": 2}
    assert tables.failures(comparison).endswith(": a 1 of 2.")


def test_the_best_run_of_a_group_is_chosen_by_validation():
    _, comparison = compared({"a": [0.1, 0.2]}, tests={"a": [0.9, 0.3]})
    assert comparison.split == "test"
    assert tables.summary(comparison)["best"].tolist() == [0.9]


def test_differences_are_paired_by_seed():
    _, comparison = compared({"a": [1.0, 2.0, 3.0], "b": [1.1, 2.1, 3.1]}, seeds=(1, 2, 3))
    (row,) = rows_of(tables.differences(comparison))
    assert (row["better"], row["than"], row["pairs"]) == ("a", "b", 3)
    assert row["by"] == pytest.approx(0.1)
    assert row["low"] == pytest.approx(0.1)  # every pair differs by the same, whatever the spread
    assert row["p"] == row["corrected"] == 2 / 2**3


def test_pairs_decide_which_is_better_where_seeds_are_missing():
    # The mean of "a" is lower thanks to a seed that "b" lacks; on every shared seed "b" is better.
    shared = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]
    values = {"a": [*shared, -9.0], "b": [value - 0.1 for value in shared] + [None]}
    _, comparison = compared(values, seeds=range(1, 8))
    assert tables.summary(comparison)["candidate"].tolist() == ["a", "b"]
    (row,) = rows_of(tables.differences(comparison))
    assert (row["better"], row["than"], row["pairs"]) == ("b", "a", 6)
    assert row["by"] == pytest.approx(0.1)
    assert row["verdict"] == "yes"


def test_groups_without_a_shared_seed_are_not_compared():
    _, comparison = compared({"a": [0.1, None], "b": [None, 0.2]})
    assert tables.differences(comparison).empty


@pytest.mark.slow
@pytest.mark.parametrize("better", ["lower", "higher"])
def test_no_difference_is_negative_whatever_is_missing(better, monkeypatch):
    metric = replace(TASKS.get("copy").metric, better=better)
    monkeypatch.setattr(TASKS.get("copy"), "metric", metric)
    rng = np.random.default_rng(0)
    for round_ in range(10):
        values = {
            label: [None if rng.random() < 0.3 else float(rng.normal()) for _ in range(6)]
            for label in "abc"
        }
        _, comparison = compared(values, seeds=range(6), name=f"c{round_}")
        table = tables.by_seed(comparison)
        for row in rows_of(tables.differences(comparison)):
            assert row["by"] >= 0
            gain = (table[row["than"]] - table[row["better"]]).dropna().mean()
            assert row["by"] == pytest.approx(gain if better == "lower" else -gain)


def test_p_values_of_a_table_are_corrected_together():
    rng = np.random.default_rng(0)
    base = rng.normal(size=8)
    values = {"a": base, "b": base + 1 + rng.normal(0, 0.1, 8), "c": base + rng.normal(0, 1, 8)}
    _, comparison = compared({k: v.tolist() for k, v in values.items()}, seeds=range(8))
    rows = rows_of(tables.differences(comparison))
    assert len(rows) == 3
    least = min(rows, key=lambda row: row["p"])
    assert least["p"] == 2 / 2**8
    assert least["corrected"] == pytest.approx(3 * 2 / 2**8)
    assert {least["better"], least["than"]} == {"a", "b"}


def test_a_verdict_is_as_strong_as_the_runs_allow():
    def verdict(low, p, pairs):
        return tables.verdict(low, p, pairs, 2 / 2**pairs, 1)

    assert verdict(0.1, 0.25, 3).startswith("undecided: 3 pairs cannot tell, 6 could")
    assert verdict(0.1, 2 / 2**6, 6) == "yes"
    assert verdict(-0.1, 2 / 2**6, 6) == "undecided"  # the interval holds zero
    assert verdict(0.1, 0.2, 6) == "undecided"  # not significant
    assert verdict(-0.1, 0.2, 6) == "undecided"


def test_more_systems_need_more_pairs():
    values = {label: [place + seed for seed in range(6)] for place, label in enumerate("abc")}
    _, comparison = compared(values, seeds=range(6))
    verdicts = set(tables.differences(comparison)["verdict"])
    assert verdicts == {"undecided: 6 pairs cannot tell, 7 could"}  # 3 * 2 / 2^6 is above 0.05


def test_the_papers_numbers_are_shown_with_real_data_only():
    plan, comparison = compared({"TARDIS + Gumbel ST": [0.4, 0.2]})
    assert tables.summary(comparison)["paper"].tolist() == ["Success"]
    log = EventLog(plan.folder)
    log.append(SweepTags({"data.real": "False"}))
    log.close()
    assert "paper" not in tables.summary(data_of(plan))

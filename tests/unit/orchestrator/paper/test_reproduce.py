"""Reproductions by one command: tables, plots and a summary."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch

from orchestrator import reproduce, sweep_session
from orchestrator.comparison.runs import ComparisonData, Group, Run
from orchestrator.execution import gpu_probe
from orchestrator.paper import (
    estimator_quality,
    gradient_flow,
    longer_sequences,
    memory_only_head,
    tables,
)
from orchestrator.paper.base import REPRODUCTIONS, Outcome, Request, Row
from orchestrator.paper.memory_only_head import Budget
from orchestrator.paper.tables import orderings
from orchestrator.paper.training import best_network
from orchestrator.planning.options import OURS
from orchestrator.planning.placement import Footprint
from orchestrator.planning.planner import paper_candidates
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import SweepStarted
from tardis_core import paper
from tardis_core.build import build_network, build_task, load_data
from tardis_core.config import make_config
from tardis_core.estimators.base import ESTIMATORS
from tardis_core.scales import SCALES
from tardis_core.training.loop import Trainer
from tardis_core.training.run_folder import RunFolder
from tests.support.sweep_logs import comparison_plan, fill_comparison


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def short(monkeypatch):
    """Trainings of a few updates, on the shortest sequences that have a middle."""

    def short_config(task, *arguments, overrides=None, **options):
        settings = {"training.updates": 40, "training.evaluate_every": 20, **(overrides or {})}
        settings |= {"task.longest": 3} if task == "copy" else {}
        return make_config(task, *arguments, overrides=settings, **options)

    for module in (gradient_flow, memory_only_head):
        monkeypatch.setattr(module, "make_config", short_config)
    return short_config


def run(name: str, *words: str) -> tuple[Path, str]:
    """The folder of its results and its summary."""
    assert reproduce.main([name, "--scale", "smoke", "--out", "out", *words]) == 0
    folder = Path("out") / name
    return folder, (folder / "summary.md").read_text()


def test_the_list_shows_every_reproduction_with_its_costs(capsys):
    assert reproduce.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert {"figure-path-length", "figure-shortest-path", "gradient-flow"} <= set(
        REPRODUCTIONS.names()
    )
    for name in REPRODUCTIONS.names():
        assert name in listed
        assert set(REPRODUCTIONS.get(name).costs) == set(SCALES)


def test_the_path_length_of_a_cell_is_that_of_the_paper():
    folder, summary = run("figure-path-length")
    table = pd.read_csv(folder / "lengths.csv", index_col="cell")
    assert table.shape == (50, 2)
    assert table["TARDIS"].mean() == pytest.approx(3)
    assert table["uMANN"].mean() == pytest.approx(3, abs=0.2)
    assert "T = 200, K = 50, 100 simulations" in summary
    assert "![path_length](path_length.png)" in summary
    assert (folder / "path_length.png").exists()


def test_the_shortest_paths_are_those_of_the_claims():
    folder, summary = run("figure-shortest-path")
    table = pd.read_csv(folder / "shortest_paths.csv").set_index(["memory", "cells"])
    assert (table.loc[(slice(None), 1), "length"] == 45).all()
    by_kind = table["length"].unstack("memory")
    assert (by_kind.loc[[2, 5, 12], "TARDIS"] < by_kind.loc[[2, 5, 12], "urMANN"]).all()
    assert (table["outside"] <= table["length"]).all()
    assert "yes: TARDIS" in summary


def test_the_same_seed_gives_the_same_table_and_another_does_not():
    texts = []
    for seed in ("1", "1", "2"):
        folder, _ = run("figure-path-length", "--seed", seed)
        texts.append((folder / "lengths.csv").read_text())
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.slow
def test_gradient_flow_trains_once_and_compares_three_models(short, capsys):
    folder, summary = run("gradient-flow")
    table = pd.read_csv(folder / "flow.csv")
    assert set(table["model"]) == {"LSTM trained", "TARDIS untrained", "TARDIS trained"}
    lstm = table[table["model"] == "LSTM trained"]
    assert not lstm["R_median"].any()
    assert (lstm["Q_median"] == lstm["sum_median"]).all()
    assert table[table["model"] == "TARDIS trained"]["R_p90"].max() > 0
    assert "test cross-entropy: LSTM trained 0." in summary
    before = capsys.readouterr().out
    assert "update" in before
    again, _ = run("gradient-flow")  # nothing is trained a second time
    assert "update    " not in capsys.readouterr().out
    assert pd.read_csv(again / "flow.csv").equals(table)


@pytest.mark.slow
def test_the_memory_only_head_is_measured_on_more_and_more_knowledge(short, monkeypatch):
    monkeypatch.setattr(memory_only_head, "ORDERS", (3,))
    monkeypatch.setitem(memory_only_head.BUDGETS, "smoke", Budget(10, 5, 10, updates=25))
    folder, summary = run("memory-only-head")
    table = pd.read_csv(folder / "heads.csv").set_index(["model", "sees"])
    assert set(table.columns) == {"additive", "hidden layer", "as trained"}
    assert set(table["as trained"].dropna().loc["attached"].index) == {
        "the memory-only head",
        "the model's own head",
    }
    detached = table.loc["detached", "additive"]
    # Heads fitted for 25 updates order no two states reliably.
    assert max(detached["x_t, h_{t-1}"], detached["x_t, h_{t-2}"]) < detached["x_t alone"]
    assert "% of the reads are 2 steps old, the newest possible" in summary
    assert "n-gram model without x_{t-1}" in summary
    assert "1.28" not in summary  # on a stand-in nothing is set beside the paper's numbers


def test_the_newest_content_that_can_be_read_is_two_steps_old():
    config = make_config("ptb", estimator="reinforce", scale="smoke")
    data = load_data(config, None, "standin")
    task = build_task(config, data)
    network = build_network(config, task.signature)
    steps = memory_only_head.record_steps(network, task, "test", pieces=20)
    assert int(steps.age_N.min()) == 2
    known = network.model.W_m(steps.h2_NH)
    newest_N = steps.age_N == 2
    content_NC = steps.r_NQ[:, network.model.memory_config.address :]
    torch.testing.assert_close(content_NC[newest_N], known[newest_N])


@pytest.mark.slow
def test_a_stopped_training_of_gradient_flow_continues_where_it_was(short, tmp_path):
    whole = gradient_flow._trained("lstm", Request("smoke", tmp_path / "whole"))
    stopped = tmp_path / "stopped" / "runs" / "lstm"
    trainer = Trainer(short("copy", "lstm", scale="smoke"), None)
    folder = RunFolder.create(stopped)
    next(trainer.run())
    folder.save(trainer)
    assert gradient_flow._trained("lstm", Request("smoke", tmp_path / "stopped")) == stopped
    curves = [pd.read_csv(each / "metrics.csv")["valid_bce"] for each in (whole, stopped)]
    assert len(curves[0]) > 1
    assert curves[0].equals(curves[1])


def test_the_summary_of_a_folder_has_all_reproductions():
    run("figure-path-length")
    run("figure-shortest-path")
    text = Path("out/summary.md").read_text()
    assert re.findall("^## (.*)$", text, re.M) == ["figure-path-length", "figure-shortest-path"]
    plots = re.findall(r"\]\((.*?)\)", text)
    assert len(plots) == 2
    assert all((Path("out") / plot).is_file() for plot in plots)


def test_a_summary_shows_our_numbers_beside_the_paper():
    outcome = Outcome([Row("error", "2.0", "1.9")], "Close.", "one seed", [])
    text = reproduce.summary("figure-path-length", Request("smoke", Path()), outcome, 3.0)
    assert "| error | 2.0 | 1.9 |" in text
    assert "Close." in text
    command = "python -m orchestrator.reproduce figure-path-length --scale smoke --seed 0"
    assert f"{command}`" in text
    rounded = Request("smoke", Path(), precision="bfloat16")
    text = reproduce.summary("figure-path-length", rounded, outcome, 3.0)
    assert f"{command} --precision bfloat16`" in text


def test_the_summary_shows_plots_in_subfolders():
    plot = Path("out") / "10 digits" / "curves.png"
    outcome = Outcome([], "", "", [plot])
    text = reproduce.summary("figure-path-length", Request("smoke", Path("out")), outcome, 3.0)
    assert "![curves](10%20digits/curves.png)" in text


def trained(task: str, values: dict[str, list[float]], **tags: str) -> None:
    """A comparison of the paper's rows for the task that has run already."""
    labels = tuple(each.label for each in paper_candidates(task, tuple(values)))
    name = f"reproduce-{task}-smoke-seed0"
    plan = replace(comparison_plan(name, labels, seeds=range(7)), trials=7 * len(labels))
    log = EventLog(plan.folder)
    log.append(SweepStarted(name, {"data": task, "data.real": "True", **tags}))
    log.close()
    plan.save()
    by_label = {each.label: values[each.settings["model"]] for each in paper_candidates(task, OURS)}
    fill_comparison(plan, {label: by_label[label] for label in labels})


@pytest.mark.slow
def test_a_table_uses_the_runs_that_exist_and_counts_what_is_solved():
    low, high = [0.01] * 7, [0.01] * 3 + [0.4] * 4
    for task in ("copy", "recall"):
        trained(task, {"tardis": low, "lstm": high})
    _, summary = run("table-ntm")
    assert (
        "| copy: TARDIS + Gumbel ST | 0.01 (0.01 to 0.01; 7 seeds), solved by 7 of 7 | Success |"
        in summary
    )
    assert "| recall: LSTM | 0.2329" in summary
    assert "solved by 3 of 7 |  |" in summary
    assert "copy: Solved (below 0.02 nats per bit): TARDIS" in summary


def test_a_part_of_a_table_is_reproduced_by_itself():
    trained("recall", {"tardis": [0.01] * 7, "lstm": [0.4] * 7})
    assert (
        reproduce.main(["table-ntm", "--part", "recall", "--scale", "smoke", "--out", "out"]) == 0
    )
    summary = Path("out/table-ntm-recall/summary.md").read_text()
    assert summary.startswith("# table-ntm, part recall\n")
    assert summary.count("| TARDIS + Gumbel ST | 0.01") == 1
    assert "orchestrator.reproduce table-ntm --part recall --scale smoke" in summary


def test_the_list_names_the_parts_of_the_tables(capsys):
    reproduce.main(["--list"])
    assert "bits per symbol [--part 512, 256, 256-reinforce, 1000]" in capsys.readouterr().out


def test_runs_on_a_stand_in_are_refused_for_real_data(capsys):
    trained("copy", {"tardis": [0.01] * 7, "lstm": [0.4] * 7}, **{"data.real": "False"})
    assert reproduce.main(["table-ntm", "--scale", "smoke", "--data", "real"]) == 2
    output = capsys.readouterr().err
    assert "--data is real, and reproduce-copy-smoke-seed0 was trained on a stand-in" in output
    assert output.count("\n") == 1


def comparison_of(task: str, values: dict[str, list[float]], real: bool = True) -> ComparisonData:
    rows = paper_candidates(task, OURS)
    config = make_config(task, "lstm", scale="smoke")
    groups = []
    for row in rows:
        if row.label in values:
            runs = [
                Run("run", replace(config, seed=seed), value, value, pd.DataFrame())
                for seed, value in enumerate(values[row.label])
            ]
            groups.append(Group(row.label, tuple(runs)))
    return ComparisonData(task, tuple(groups), task, real, ())


def test_an_order_of_the_paper_is_confirmed_refuted_or_undecided():
    lstm, gumbel = "LSTM + LayerNorm + Dropout", "TARDIS + Gumbel ST + R"
    spread = [0.01 * n for n in range(6)]
    better, worse = [1.2 + s for s in spread], [1.5 + s for s in spread]
    confirmed = orderings(comparison_of("ptb", {gumbel: better, lstm: worse}))
    assert "1 confirmed, 0 refuted, 0 undecided" in confirmed
    refuted = orderings(comparison_of("ptb", {gumbel: worse, lstm: better}))
    assert "0 confirmed, 1 refuted, 0 undecided" in refuted
    few = orderings(comparison_of("ptb", {gumbel: better[:3], lstm: worse[:3]}))
    assert "0 confirmed, 0 refuted, 1 undecided" in few
    made_up = orderings(comparison_of("ptb", {gumbel: better, lstm: worse}, real=False))
    assert "says nothing" in made_up


def test_the_order_is_reversed_where_higher_is_better():
    lstm, gumbel = "LSTM + LayerNorm + Dropout", "TARDIS + Gumbel ST"
    values = {lstm: [80.0 + n for n in range(6)], gumbel: [84.0 + n for n in range(6)]}
    assert "1 confirmed" in orderings(comparison_of("snli", values))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "name what to reproduce: all, estimator-quality"),
        (["table-mt"], "unknown reproduction 'table-mt'; choose one of: estimator-quality"),
        (["all", "--scale", "huge"], "--scale: invalid choice: 'huge'"),
        (["figure-path-length", "--out", "/dev/null/x"], "--out must be a folder"),
        (["table-ptb", "--concurrency", "-1"], "--concurrency must not be negative, not -1"),
        (["figure-path-length", "--part", "5"], "'5' of figure-path-length at scale small; it has"),
        (["table-strokes", "--part", "6"], "unknown part '6' of table-strokes at scale small; "),
        (["table-strokes", "--part", "6"], "choose one of: 5, 10, 15"),
        (["table-ptb", "--part", "512"], "'512' of table-ptb at scale small; it has no parts"),
    ],
)
def test_bad_input_gets_one_line(capsys, words, reason):
    assert reproduce.main(words) == 2
    output = capsys.readouterr().err
    assert reason in output
    assert output.count("\n") == 1


@pytest.mark.parametrize(("device", "gpus"), [("auto", 0.25), ("cuda", 0.25), ("cpu", 0)])
def test_the_comparisons_of_a_table_run_on_the_gpus_of_the_cluster(
    tmp_path, monkeypatch, device, gpus
):
    monkeypatch.setattr(sweep_session, "nodes_at", lambda address: [{"CPU": 4.0, "GPU": 1.0}])
    monkeypatch.setattr(sweep_session, "start_ray", lambda *_: None)
    monkeypatch.setattr(gpu_probe, "footprint", lambda plan: Footprint(1e9, 24e9, 0.01))
    plan = tables._plan(Request("smoke", tmp_path, device=device), tables.Variant("copy"))
    assert plan.gpus_per_trial == gpus


def test_the_trainings_of_a_table_can_be_limited_whether_new_or_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_session, "nodes_at", lambda address: [{"CPU": 4.0}])
    request = Request("smoke", tmp_path, concurrency=1)
    plan = tables._plan(request, tables.Variant("copy"))
    assert plan.concurrency == 1
    plan.save()
    assert tables._plan(replace(request, concurrency=0), tables.Variant("copy")).concurrency == 1
    assert tables._plan(replace(request, concurrency=3), tables.Variant("copy")).concurrency == 3
    moved = replace(request, data_dir=str(tmp_path))
    assert tables._plan(moved, tables.Variant("copy")).data_dir == str(tmp_path)


@pytest.mark.slow
def test_estimator_quality_judges_every_estimator_at_every_stage():
    folder, summary = run("estimator-quality")
    table = pd.read_csv(folder / "quality.csv")
    problems = {"start", "middle", "end", "K = 6, start", "K = 6, end"}
    assert set(table["problem"]) == problems
    assert set(table["parameters"]) == {"addressing", "all"}
    used = {name for name, _ in estimator_quality.SYSTEMS.values()}
    assert used == set(ESTIMATORS.names())  # a new one must be judged, too
    assert len(table) == len(problems) * 2 * len(estimator_quality.SYSTEMS)
    assert (table["seconds"] > 0).all()
    assert (table.loc[table["estimator"] == "soft", "deviation"] == 0).all()
    assert "![quality](quality.png)" in summary
    assert "end, reinmax, addressing parameters | bias" in summary


@pytest.mark.slow
def test_longer_sequences_are_measured_with_the_cells_of_training_and_with_more():
    folder, summary = run("longer-sequences")
    table = pd.read_csv(folder / "lengths.csv").set_index(["model", "items"])["bce"]
    models = ["LSTM", *(f"TARDIS, {cells} cells" for cells in (16, 32, 64, 128))]
    assert list(table.index.unique("model")) == models
    assert list(table["LSTM"].index) == [3, 4, 6, 9, 12, 18]  # training ends at 3
    network, config = best_network(folder / "runs" / "tardis-seed0")
    own = build_task(config, None).evaluate(network, "test")["bce"]
    assert table["TARDIS, 16 cells", 3] == pytest.approx(own)
    assert len(set(table)) == len(table)
    assert f"| LSTM | 3 items {table['LSTM', 3]:.4f}, 4 items" in summary
    assert "No model has learned the task" in summary


def test_longer_sequences_count_as_solved_with_every_seed_or_not_at_all():
    costs = {"LSTM": [[0.4, 0.5], [0.4, 0.5]], "TARDIS": [[0.01, 0.01], [0.01, 0.03]]}
    rows = [
        {"model": model, "seed": seed, "items": items, "bce": bce}
        for model, by_seed in costs.items()
        for seed, by_items in enumerate(by_seed)
        for items, bce in zip((6, 12), by_items, strict=True)
    ]
    verdict = longer_sequences._verdict(pd.DataFrame(rows), 6)
    assert verdict.endswith("after training with at most 6: TARDIS 6.")
    verdict = longer_sequences._verdict(pd.DataFrame(rows[:6]), 6)  # without the seed that fails
    assert verdict.endswith("after training with at most 6: TARDIS 12.")
    rows[4]["bce"] = 0.03  # what fails at 6 items is not solved at 12
    verdict = longer_sequences._verdict(pd.DataFrame(rows[:6]), 6)
    assert verdict.startswith("No model has learned the task")


@pytest.mark.parametrize("table", [tables.Ptb, tables.Strokes, tables.Snli])
def test_the_plans_of_the_paper_scale_train_rows_of_the_paper(tmp_path, table):
    request = Request("paper", tmp_path, device="cpu", data="standin")
    for variant in table.variants_at("paper").values():
        plan = tables._plan(request, variant)
        labels = [each.label for each in plan.candidates]
        assert set(labels) == set(variant.rows or labels)
        assert set(labels) <= {row.label for row in paper.rows(variant.task)}
        assert len(plan.candidates) * (variant.seeds or tables.SEEDS["paper"]) == plan.trials
        assert plan.fixed == {key: str(value) for key, value in variant.set.items()}


def test_the_precision_of_a_table_is_that_of_its_trainings_and_in_their_name(tmp_path):
    request = Request("smoke", tmp_path, device="cpu", precision="bfloat16")
    plan = tables._plan(request, tables.Variant("copy"))
    assert plan.fixed["training.precision"] == "bfloat16"
    assert plan.name == "reproduce-copy-smoke-seed0-bfloat16"

"""What a search knows from an earlier one, and that it does not count as its own."""

from dataclasses import replace

import optuna
import pytest
from optuna.trial import TrialState

from orchestrator.execution import warm_start
from orchestrator.execution.recovery import lost_trials
from orchestrator.execution.study import KNOWN_FROM, create_study, open_study, study_trials
from orchestrator.execution.tuner import ended
from orchestrator.planning.arguments import search_options
from orchestrator.planning.planner import plan_from
from orchestrator.results.records import Records
from orchestrator.tracking.event_log import EventLog
from tardis_core.errors import UserError
from tests.support.sweep_logs import comparison_plan, fill, make_plan

RATE = "training.learning_rate"
HIDDEN = {"model.hidden": "16"}  # that of the earlier trials


@pytest.fixture
def earlier(tmp_path, monkeypatch):
    """A finished search: complete, pruned, failed, complete."""
    monkeypatch.chdir(tmp_path)
    plan = make_plan("earlier", fixed=HIDDEN, data_name="copy", data_sha256="abc")
    plan.save()
    fill(plan, [0.4, (0.7,), None, 0.3])
    return plan


def later(**more):
    values = {"fixed": HIDDEN, "warm_start": "earlier", "data_name": "copy", "data_sha256": "abc"}
    return make_plan("later", **{**values, **more})


def known(plan):
    return [each for each in open_study(plan.folder, plan.name).trials if each.user_attrs]


def test_complete_and_pruned_trials_are_known_with_their_values(earlier):
    plan = later()
    before = study_trials(earlier.folder, "earlier")
    in_range = [each for each in before if each.params[RATE] >= 3e-4]
    expected = [each for each in in_range if each.state is not TrialState.FAIL]
    text = warm_start.learn(plan)
    assert f"knows {len(expected)} trials of earlier" in text
    for trial, source in zip(known(plan), expected, strict=True):
        assert trial.state is source.state
        assert (trial.value, trial.intermediate_values) == (
            source.value,
            source.intermediate_values,
        )
        assert trial.params[RATE] == source.params[RATE]
        assert trial.params["memory.cells"] > 0  # not searched then: what the trial had
        assert trial.user_attrs == {KNOWN_FROM: f"earlier {source.number}"}


def test_they_are_no_trials_of_the_sweep(earlier):
    plan = later()
    warm_start.learn(plan)
    assert known(plan)
    assert study_trials(plan.folder, "later") == []
    assert ended(plan) == 0
    log = EventLog(plan.folder)
    assert lost_trials(plan, log) == []
    log.close()
    assert not Records.load(plan).trials


def test_a_driver_that_was_killed_meanwhile_adds_the_rest_and_a_begun_search_nothing(earlier):
    plan = later()
    study = create_study(plan.folder, plan.name, plan.mode, optuna.samplers.RandomSampler())
    first, *_ = warm_start.mapped(plan, earlier)[0]
    study.add_trial(first)
    warm_start.learn(plan)
    names = [each.user_attrs[KNOWN_FROM] for each in known(plan)]
    assert len(names) == len(set(names)) > 1
    study.ask()
    fill(earlier_more := make_plan("more", fixed=HIDDEN), [0.1])
    assert warm_start.learn(replace(plan, warm_start=earlier_more.name)) == ""


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"fixed": {}}, {"model.hidden"}),
        ({"fixed": {**HIDDEN, "training.updates": "7"}}, {"training.updates"}),
        ({"estimators": ("reinforce",)}, {"estimator"}),
    ],
)
def test_what_does_not_fit_is_named(earlier, change, names):
    fitting, misfits = warm_start.mapped(later(**change), earlier)
    assert misfits
    assert names <= {name for each in misfits for name in each.names}
    text = warm_start._in_words(earlier, len(fitting), misfits)
    assert f"{len(misfits)} do not fit its space, because of" in text


def test_a_sweep_on_other_data_teaches_nothing(earlier):
    with pytest.raises(UserError, match="a sweep on the same data: earlier had copy"):
        warm_start.check_data(later(data_sha256="def"))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["copy", "--warm-start", "nobody"], "there is no sweep 'nobody'"),
        (["recall", "--warm-start", "earlier"], "of the same task: earlier is of copy"),
        (["copy", "--warm-start", "compared"], "compared is a comparison"),
        (["copy", "--warm-start", "earlier", "--sampler", "grid"], "a sampler that learns"),
        (["copy", "--warm-start", "earlier", "--seeds-per-trial", "2"], "the same seeds"),
    ],
)
def test_what_cannot_be_learned_from_is_refused_before_anything_is_written(earlier, words, reason):
    comparison_plan("compared").save()
    with pytest.raises(UserError, match=reason):
        plan_from(search_options([*words, "--smoke", "--name", "n"]))


def test_the_plan_keeps_the_name(earlier):
    plan = plan_from(search_options(["copy", "--warm-start", "earlier", "--smoke", "--name", "n"]))
    assert plan.warm_start == "earlier"

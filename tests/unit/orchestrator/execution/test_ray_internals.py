"""What is relied on of Ray's private parts; if one of these fails, Ray has changed."""

import inspect
from types import SimpleNamespace

import pytest
from ray._private.node import Node
from ray.tune.execution.tune_controller import TrialRunnerWrapper, TuneController
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, TrialScheduler
from ray.tune.search import Searcher

from orchestrator.execution import ray_internals


@pytest.fixture
def scheduler():
    return ASHAScheduler("training_iteration", "loss", "min", 9, 1, 3, stop_last_trials=False)


def test_rungs_are_pairs_of_a_milestone_and_values_by_trial_id(scheduler):
    trial = SimpleNamespace(trial_id="a")  # an id is all that ASHA asks of a trial
    scheduler.on_trial_add(None, trial)
    scheduler.on_trial_result(None, trial, {"training_iteration": 1, "loss": 0.5})
    rungs = dict(ray_internals.rungs(scheduler, 0))
    assert rungs == {9: {}, 3: {}, 1: {"a": -0.5}}  # the sign makes every value one to maximise


def test_a_value_that_is_put_into_a_rung_counts(scheduler):
    dict(ray_internals.rungs(scheduler, 0))[1].update({str(n): -1.0 for n in range(3)})
    trial = SimpleNamespace(trial_id="late")
    scheduler.on_trial_add(None, trial)
    worse = {"training_iteration": 1, "loss": 2.0}
    assert scheduler.on_trial_result(None, trial, worse) == TrialScheduler.STOP


def test_a_trial_may_be_retried_as_often_as_its_limit_says():
    trial = Trial("unknown", stub=True, max_failures=1)
    assert ray_internals.may_retry(trial)
    trial.run_metadata.num_failures = 2
    assert not ray_internals.may_retry(trial)


def test_the_statistics_that_are_freed_are_those_that_grow():
    trial = Trial("unknown", stub=True)
    trial.update_last_result({"loss": 0.5, "training_iteration": 1})
    assert "loss" in trial.metric_analysis
    assert "loss" in trial.metric_n_steps
    ray_internals.free_statistics(trial)
    assert not trial.metric_analysis
    assert not trial.metric_n_steps
    assert trial.last_result["loss"] == 0.5


def test_the_head_is_contacted_with_the_token_and_without_a_warning(monkeypatch):
    """That a wrong token raises AuthenticationError at once is in integration/test_break_in.py."""
    enable = ray_internals.maybe_enable_token_auth_if_token_available
    assert "warn_if_disabled" in inspect.signature(enable).parameters
    calls = []
    monkeypatch.setattr(
        ray_internals,
        "maybe_enable_token_auth_if_token_available",
        lambda warn_if_disabled: calls.append(f"enabled, warns: {warn_if_disabled}"),
    )
    monkeypatch.setattr(ray_internals, "GcsClient", lambda address: calls.append(address))
    ray_internals.contact_head("head:6379")
    assert calls == ["enabled, warns: False", "head:6379"]


def test_ray_starts_all_its_processes_with_these_methods_and_a_sweep_leaves_out_three():
    """That a sweep runs without them is in integration/test_sweep_end_to_end.py."""
    started = {name for name in vars(Node) if name.startswith("start_")}
    skipped = {"start_monitor", "start_api_server", "start_log_monitor"}
    assert started >= skipped
    before = {name: getattr(Node, name) for name in started}
    with ray_internals.starting_few_processes():
        assert {name for name in started if getattr(Node, name) is not before[name]} == skipped
        node = object.__new__(Node)
        node.start_monitor()
        node.start_log_monitor()
        node.start_api_server(include_dashboard=False, raise_on_failure=False)
        assert node._webui_url is None
    assert {name: getattr(Node, name) for name in started} == before


def test_a_searcher_that_saves_nothing_leaves_no_file(tmp_path):
    """Ray saves its searcher with every snapshot; ours has nothing to save."""

    class Silent(Searcher):
        def save(self, checkpoint_path):
            pass

    Silent("loss", "min").save_to_dir(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_the_reason_of_a_failure_is_known_before_ray_copies_it_to_the_storage(tmp_path):
    assert isinstance(Trial.error_file, property)
    (tmp_path / "error.txt").write_text("[Errno 28] No space left on device")
    trial = SimpleNamespace(error_file=str(tmp_path / "error.txt"), get_error=lambda: None)
    assert "No space left" in ray_internals.error_of(trial)


def test_a_controller_of_tune_stops_trials_and_decides_whether_processes_are_kept():
    assert list(inspect.signature(TuneController.stop_trial).parameters) == ["self", "trial"]
    assert "_reuse_actors" in inspect.getsource(TuneController._maybe_cache_trial_actor)
    assert "on_trial_add(self._wrapped()" in inspect.getsource(TuneController.add_trial)
    assert "self._tune_controller = " in inspect.getsource(TrialRunnerWrapper.__init__)

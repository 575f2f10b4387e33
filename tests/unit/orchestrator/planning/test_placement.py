"""GPUs, CPUs and scale of a new sweep follow the cluster, unless they were asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.planning.arguments import comparison_options, search_options
from orchestrator.planning.configs import first_configs
from orchestrator.planning.placement import (
    MAX_TRIALS_PER_GPU,
    MEMORY_MARGIN,
    Cluster,
    Footprint,
    cpu_share,
    share_of,
    slots,
    trials_per_gpu,
)
from orchestrator.planning.plan import SearchPlan, load_plan
from orchestrator.planning.planner import plan_from
from tests.support.sweep_logs import COMMON

GB = 1e9
MIXED = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 16.0}]
sizes = st.floats(1e6, 1e12)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def cluster_of(nodes, footprint=None):
    return Cluster(lambda: nodes, lambda plan: footprint)


def plan(nodes, *words, footprint=None, options=search_options):
    return plan_from(options(["copy", *words]), cluster_of(nodes, footprint))


def trials_of(gpus, cpus):
    return SearchPlan(**COMMON, name="s", gpus_per_trial=gpus, cpus_per_trial=cpus)


@given(memory=sizes, total=sizes, limit=st.integers(1, 64))
def test_the_largest_packing_that_fits_with_a_margin(memory, total, limit):
    count = trials_per_gpu(memory, total, limit)
    usable = total * (1 - MEMORY_MARGIN)
    assert 1 <= count <= limit
    assert count == 1 or count * memory <= usable * (1 + 1e-9)
    assert count == limit or (count + 1) * memory > usable * (1 - 1e-9)


@given(smaller=sizes, larger=sizes, total=sizes)
def test_larger_trials_never_share_with_more(smaller, larger, total):
    smaller, larger = sorted([smaller, larger])
    assert trials_per_gpu(larger, total) <= trials_per_gpu(smaller, total) <= MAX_TRIALS_PER_GPU


@given(count=st.integers(1, 64))
def test_exactly_so_many_trials_fit_by_their_share(count):
    share = share_of(count)
    assert round(share * 10_000) * count <= 10_000  # as Ray counts
    assert slots(trials_of(share, cpus=0), [{"GPU": 3.0}]) == 3 * count


node = st.fixed_dictionaries(
    {"CPU": st.integers(0, 64).map(float), "GPU": st.integers(0, 8).map(float)}
)


@given(nodes=st.lists(node, max_size=4), gpus=st.sampled_from([0.25, 0.3333, 0.5, 1.0, 2.0]))
def test_cpus_are_shared_so_that_every_gpu_is_used(nodes, gpus):
    cpus = cpu_share(gpus, nodes)
    assert 0 <= cpus <= 1
    assert slots(trials_of(gpus, cpus), nodes) == slots(trials_of(gpus, cpus=0), nodes)


@pytest.mark.parametrize(
    ("memory", "share", "count"), [(1, 0.25, 8), (4, 0.25, 8), (5, 0.3333, 6), (15, 1, 2)]
)
def test_auto_packs_by_memory_and_says_why(memory, share, count):
    footprint = Footprint(memory * GB, 20 * GB, 0.05)
    chosen = plan(MIXED, footprint=footprint)
    assert chosen.gpus_per_trial == share
    assert slots(chosen, MIXED) == count
    assert f"{count // 2} per GPU: " in chosen.gpu_reason
    assert f"takes {memory} of 20 GB and 50 ms per update" in chosen.gpu_reason


def test_the_choice_is_saved():
    chosen = plan(MIXED, "--name", "one", footprint=Footprint(GB, 20 * GB, 0.05))
    chosen.folder.mkdir(parents=True)
    chosen.save()
    assert load_plan("one") == chosen


def test_busy_gpus_get_one_trial_each():
    chosen = plan(MIXED, footprint=None)
    assert chosen.gpus_per_trial == 1
    assert "all GPUs were busy" in chosen.gpu_reason


def test_a_trial_that_does_not_fit_has_a_gpu_of_its_own():
    chosen = plan(MIXED, footprint=Footprint(20 * GB, 20 * GB, float("nan")))
    assert chosen.gpus_per_trial == 1
    assert "does not fit" in chosen.gpu_reason


def test_no_gpus_without_gpus_in_the_cluster():
    chosen = plan([{"CPU": 4.0}])
    assert (chosen.gpus_per_trial, chosen.cpus_per_trial, chosen.gpu_reason) == (0, 1, "")


@pytest.mark.parametrize("share", [0, 0.5, 1, 2])
def test_a_number_that_was_given_is_kept_and_nothing_is_measured(share):
    def refuse(plan):
        raise AssertionError("measured")

    options = search_options(["copy", "--gpus-per-trial", str(share)])
    assert plan_from(options, Cluster(lambda: MIXED, refuse)).gpus_per_trial == share


@pytest.mark.parametrize("options", [search_options, comparison_options])
@pytest.mark.parametrize(
    ("nodes", "words", "scale"),
    [
        (MIXED, [], "paper"),
        ([{"CPU": 64.0}], [], "small"),
        (MIXED, ["--gpus-per-trial", "0"], "small"),
        ([{"CPU": 2.0}], ["--gpus-per-trial", "1"], "paper"),  # the cluster may grow
        (MIXED, ["--smoke"], "smoke"),
    ],
)
def test_the_scale_follows_the_cluster(options, nodes, words, scale):
    assert plan(nodes, *words, options=options).scale == scale


def test_few_cpus_do_not_leave_gpus_idle():
    few = [{"CPU": 2.0, "GPU": 4.0}]
    chosen = plan(few, "--gpus-per-trial", "0.5")
    assert chosen.cpus_per_trial == 0.25
    assert slots(chosen, few) == 8
    given = plan(few, "--gpus-per-trial", "0.5", "--cpus-per-trial", "1")
    assert given.cpus_per_trial == 1
    assert slots(given, few) == 2


def test_the_first_trials_have_what_they_can_of_set():
    words = ["--smoke", "--models", "tardis,lstm", "--set", "memory.cells=8"]
    configs = first_configs(plan([], *words, "--set", "training.batch=4"))
    assert {config.model for config in configs} == {"tardis", "lstm"}
    assert {config.training.batch for config in configs} == {4}
    assert {config.settings().get("memory.cells") for config in configs} == {8, None}


def test_a_sweep_that_exists_asks_no_cluster():
    def refuse(*_):
        raise AssertionError("asked")

    chosen = plan([], "--name", "one")
    chosen.folder.mkdir(parents=True)
    chosen.save()
    assert plan_from(search_options(["--resume", "one"]), Cluster(refuse, refuse)) == chosen

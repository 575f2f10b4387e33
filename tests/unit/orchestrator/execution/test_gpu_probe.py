"""What a trial takes of a GPU, measured with a stand-in for CUDA that counts."""

from types import SimpleNamespace

import pytest
import ray
import torch

from orchestrator.execution import gpu_probe
from orchestrator.planning.configs import first_configs
from orchestrator.planning.placement import Footprint
from tardis_core.build import load_data
from tardis_core.training.loop import Trainer
from tests.support.sweep_logs import comparison_plan, make_plan

TOTAL = 24e9


@pytest.fixture
def cuda(monkeypatch):
    """A GPU on which a trainer takes one byte per hidden unit."""
    state = SimpleNamespace(peak=0, updates=0, devices=set())

    class OnCpu(Trainer):
        def __init__(self, config, data, device):
            super().__init__(config, data, "cpu")
            state.devices.add(device)
            state.peak += config.settings()["model.hidden"]

        def step(self):
            state.updates += 1
            return super().step()

    monkeypatch.setattr(gpu_probe, "Trainer", OnCpu)
    monkeypatch.setattr(gpu_probe, "compute", lambda: None)
    monkeypatch.setattr(gpu_probe, "CONTEXT_BYTES", 0)
    properties = SimpleNamespace(total_memory=TOTAL)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: properties)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: setattr(state, "peak", 0))
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: state.peak)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return state


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def measured(plan) -> Footprint:
    configs = first_configs(plan)
    return gpu_probe.measure(configs, plan.protocol.seeds, load_data(configs[0], None, "auto"))


def test_the_largest_candidate_counts(cuda):
    plan = comparison_plan("two")
    hidden = [config.settings()["model.hidden"] for config in first_configs(plan)]
    footprint = measured(plan)
    assert footprint.memory == max(hidden)
    assert footprint.total_memory == TOTAL
    assert footprint.step_seconds > 0
    assert cuda.updates == gpu_probe.UPDATES * len(hidden)
    assert cuda.devices == {"cuda"}


def test_all_seeds_of_a_trial_share_its_memory(cuda):
    one = measured(make_plan("one", fixed={"model.hidden": "16"}))
    three = measured(make_plan("three", fixed={"model.hidden": "16"}, seeds_per_trial=3))
    assert (one.memory, three.memory) == (16, 48)


def test_a_trial_that_does_not_fit_takes_the_whole_gpu(cuda, monkeypatch):
    def fail(self):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(gpu_probe.Trainer, "step", fail)
    assert measured(make_plan())[:2] == (TOTAL, TOTAL)


def test_every_gpu_that_was_given_must_be_seen(monkeypatch):
    context = SimpleNamespace(get_accelerator_ids=lambda: {"GPU": ["0", "1"]})
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(RuntimeError, match="PyTorch sees 1 of 2"):
        gpu_probe.compute()

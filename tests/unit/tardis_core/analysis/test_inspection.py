"""The metrics of an inspection are those of the reads that it plots."""

import numpy as np
import pytest

from tardis_core.analysis.access import NEVER, record_access
from tardis_core.analysis.inspection import inspect_model
from tardis_core.build import build_network, build_task, load_data
from tardis_core.config import make_config


def network_and_task(task: str, **overrides):
    config = make_config(task, scale="smoke", overrides={"model.hidden": 8, **overrides})
    built = build_task(config, load_data(config, source="standin"))
    return build_network(config, built.signature), built


@pytest.mark.slow
def test_metrics_cover_all_steps_of_the_first_sequences(tmp_path):
    few = {"task.train_sequences": 4, "task.valid_sequences": 4, "task.test_sequences": 20}
    network, task = network_and_task("strokes", **few)
    actual = inspect_model(network, task, tmp_path / "new", example=3)
    assert actual.sequences == 16
    accesses = record_access(network, task, task.examples("test", range(16)))
    steps = sum(access.steps for access in accesses)
    empty = sum(int((access.source_T == NEVER).sum()) for access in accesses)
    assert actual.metrics["reads of an empty cell, %"] == pytest.approx(100 * empty / steps)
    distances = [
        t - source for a in accesses for t, source in enumerate(a.source_T) if source != NEVER
    ]
    assert actual.metrics["mean wormhole length"] == pytest.approx(np.mean(distances))
    common = max(set(distances), key=lambda d: (distances.count(d), -d))
    assert actual.metrics["most frequent length"] == common
    share = 100 * distances.count(common) / len(distances)
    assert actual.metrics["  its share of all wormholes, %"] == pytest.approx(share)
    betas = np.concatenate([access.beta_T for access in accesses])
    assert actual.metrics["mean beta"] == pytest.approx(betas.mean(), rel=1e-5)
    assert all(plot.read_bytes().startswith(b"\x89PNG") for plot in actual.plots)


@pytest.mark.slow
def test_a_split_of_few_sequences_is_enough(tmp_path):
    network, task = network_and_task("copy", **{"task.valid_sequences": 3})
    actual = inspect_model(network, task, tmp_path, split="valid", example=2)
    assert actual.sequences == 3
    assert "mean alpha" not in actual.metrics  # the presets of copy have no RESET gates

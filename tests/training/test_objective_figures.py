"""What the objective says of the RESET gates counts the steps that exist, and no padding."""

import torch

from tardis_core.build import build_network, build_task
from tardis_core.config import make_config
from tardis_core.training.objective import objective


def test_reset_gates_are_averaged_over_existing_steps():
    overrides = {"model.hidden": 8, "model.reset_gates": True}
    config = make_config("copy", scale="smoke", overrides=overrides)
    task = build_task(config, None)
    network = build_network(config, task.signature)
    batch = task.train_batch(0)
    padding = torch.full_like(batch.inputs, 50.0)  # would push the gates to an end
    padded = batch._replace(
        inputs=torch.cat([batch.inputs, padding]),
        targets=torch.cat([batch.targets, torch.zeros_like(batch.targets)]),
        scored_TB=torch.cat([batch.scored_TB, torch.zeros_like(batch.scored_TB)]),
        mask_TB=torch.arange(2 * len(batch.inputs))[:, None].expand(-1, batch.inputs.shape[1])
        < len(batch.inputs),
    )
    plain = objective(network, task.signature, batch, None, None, 0.0).figures
    masked = objective(network, task.signature, padded, None, None, 0.0).figures
    torch.testing.assert_close(masked["alpha"], plain["alpha"])
    torch.testing.assert_close(masked["beta"], plain["beta"])

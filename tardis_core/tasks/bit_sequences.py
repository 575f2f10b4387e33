"""Shared by the tasks that show vectors of bits and ask for vectors of bits."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch

from tardis_core.models.network import Network
from tardis_core.paper import SUCCESS
from tardis_core.tasks.base import Batch, Metric, Split
from tardis_core.tasks.details import Curve, Detail
from tardis_core.tasks.generated import GeneratedTask

BEYOND = 1.5  # times the greatest length: where the places of an answer are distinguished


class BitsTask(GeneratedTask):
    """All sequences of a batch are scored at the same steps."""

    metric = Metric("bce", "nats per bit at the greatest training length", "lower", SUCCESS)
    measured = "cost"
    measured_label = "binary cross-entropy (nats per bit)"
    markers: ClassVar[Mapping[int, str]]  # input channels beside the bits, and what they mean

    def at_length(self, network: Network, split: Split, length: int) -> float:
        """Binary cross-entropy over the scored bits, in nats per bit."""
        result = self.score_at(network, split, length)
        return result.nats / (result.steps * self.signature.outputs)

    @torch.no_grad()
    def cost_by_position(self, network: Network, split: Split, length: int) -> tuple[float, ...]:
        """Nats per bit at each step of the answer."""
        device = next(network.parameters()).device
        costs = []
        for batch in self.evaluation_batches(split, length):
            batch = batch.to(device)
            prediction, _ = network(batch.inputs, asked_TB=batch.scored_TB)
            ll_TB = self.signature.log_likelihood(prediction.logits_TBO, batch)
            costs.append(-ll_TB[batch.scored_TB[:, 0]] / self.signature.outputs)
        return tuple(torch.cat(costs, 1).mean(1).tolist())

    def details(self, network: Network, split: Split) -> list[Detail]:
        """The cost by length, and at each position of an answer longer than any of training."""
        beyond = round(BEYOND * self.config.longest)
        by_position = self.cost_by_position(network, split, beyond)
        return [
            *super().details(network, split),
            Curve(
                name="cost_by_position",
                x_label=f"position in the answer at length {beyond}",
                y_label=self.measured_label,
                x=tuple(range(1, len(by_position) + 1)),
                y=by_position,
            ),
        ]

    def labels(self, batch: Batch, column: int) -> list[str]:
        """The name of a marker, or the bits that are shown or asked for."""
        return [
            self._label(*step)
            for step in zip(
                batch.inputs[:, column].numpy(),
                batch.targets[:, column].numpy(),
                batch.scored_TB[:, column].tolist(),
                strict=True,
            )
        ]

    def _label(self, input_D: np.ndarray, target_O: np.ndarray, scored: bool) -> str:
        for channel, marker in self.markers.items():
            if input_D[channel]:
                return marker
        bits = target_O if scored else input_D[: len(target_O)]
        return "".join(str(int(bit)) for bit in bits)

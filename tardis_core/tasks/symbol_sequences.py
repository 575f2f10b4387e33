"""Shared by the tasks that show symbols and ask for symbols."""

from tardis_core.models.network import Network
from tardis_core.tasks.base import Batch, Metric, Split
from tardis_core.tasks.generated import GeneratedTask

SOLVED = 99.0  # %


class SymbolsTask(GeneratedTask):
    """An answer is a class per scored step."""

    metric = Metric("accuracy", "% of answers at the greatest training length", "higher", SOLVED)
    measured = "accuracy"
    measured_label = "accuracy (% of the answers)"
    symbol_names: tuple[str, ...]

    @property
    def vocabulary(self) -> list[str]:
        return list(self.symbol_names)

    def at_length(self, network: Network, split: Split, length: int) -> float:
        """The share of answers that are right, in %."""
        result = self.score_at(network, split, length)
        return 100 * result.correct / result.steps

    def labels(self, batch: Batch, column: int) -> list[str]:
        """The name of each symbol."""
        return [self.symbol_names[symbol] for symbol in batch.inputs[:, column].tolist()]

"""A run that starts with the trained weights of another one, under settings of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tardis_core.analysis.other_cells import with_cells
from tardis_core.config import Config, changed
from tardis_core.errors import UserError
from tardis_core.models.network import Network
from tardis_core.training.loop import Trainer
from tardis_core.training.run_folder import RunFolder, load_checkpoint, load_network

CELLS = "memory.cells"  # the only size that may change


class Start(NamedTuple):
    """The weights that a run starts with."""

    source: Path
    values: dict[str, Any]  # of the checkpoint
    config: Config  # that they were trained with

    def about(self) -> dict[str, Any]:
        """What the new run records about them."""
        return {
            "source": str(self.source),
            "seed": self.config.seed,
            "update": self.values["update"],
            "data": self.values["provenance"]["name"],
        }

    def changed(self, settings: Mapping[str, Any], seed: int | None) -> Config:
        """The configuration of the new run: that of the old one, but for what is given."""
        return changed(self.config, settings, seed)

    def give_weights(self, trainer: Trainer) -> None:
        """Let a training that has not begun start with these weights."""
        self._check_vocabulary(trainer.task.vocabulary)
        try:
            trainer.network.load_state_dict(self._network(trainer.config).state_dict())
        except RuntimeError as error:
            raise UserError(
                f"the weights in {self.source} do not fit the new run: of the settings that decide "
                f"their sizes only {CELLS} may change"
            ) from error
        trainer.started_from = self.about()

    def _network(self, config: Config) -> Network:
        network = load_network(self.values, self.config, self.source)
        had, has = (each.settings().get(CELLS) for each in (self.config, config))
        return network if has in (None, had) else with_cells(network, has, config.seed)

    def _check_vocabulary(self, vocabulary: list[str]) -> None:
        if self.values["vocabulary"] != vocabulary:
            name = self.values["provenance"]["name"]
            raise UserError(
                f"the weights in {self.source} were trained on {name}, whose symbols are not those "
                "of this data; give data with the same symbols"
            )


def load_start(path: Path) -> Start:
    """The best weights in the folder of a run, or those of a checkpoint file."""
    source = RunFolder(path).best if path.is_dir() else path
    return Start(source, *load_checkpoint(source))

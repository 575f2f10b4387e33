"""The rows of the paper's result tables: what each system is here, and what the paper reports.

A row without settings is a system that the paper quotes and that is not trained here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestrator.plan import Candidate

SUCCESS = 0.02  # nats a bit: below it copy and recall count as solved


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    label: str
    reported: Any  # a number, Success or Failure; for strokes by the number of digits
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def candidate(self) -> Candidate | None:
        """The row as something to train."""
        return Candidate(self.label, dict(self.settings)) if self.settings else None


def _tardis(estimator: str, **settings: Any) -> dict[str, Any]:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return {"model": "tardis", "estimator": estimator, **named}


LSTM = {"model": "lstm"}
GUMBEL = _tardis("gumbel")
REINFORCE = _tardis("reinforce", estimator__auxiliary=True)

TABLES: dict[str, tuple[Row, ...]] = {
    "ptb": (
        Row("CW-RNN", 1.46, {"model": "clockwork"}),
        Row("HF-MRNN", 1.41),
        Row("ME n-gram", 1.37),
        Row("BatchNorm LSTM", 1.32, {"model": "bnlstm"}),
        Row("Zoneout RNN", 1.27, {"model": "zoneout"}),
        Row("LayerNorm LSTM", 1.27),
        Row("LayerNorm HyperNetworks", 1.23, {"model": "hyperlstm"}),
        Row("LayerNorm HM-LSTM", 1.24, {"model": "hmlstm"}),
        Row("LSTM + LayerNorm + Dropout", 1.28, LSTM),
        Row(
            "TARDIS + REINFORCE + R",
            1.28,
            _tardis("reinforce", estimator__auxiliary=False, model__reset_gates=True),
        ),
        Row(
            "TARDIS + REINFORCE + Aux",
            1.28,
            _tardis("reinforce", estimator__auxiliary=True, model__reset_gates=False),
        ),
        Row(
            "TARDIS + REINFORCE + Aux + R",
            1.26,
            _tardis("reinforce", estimator__auxiliary=True, model__reset_gates=True),
        ),
        Row("TARDIS + Gumbel ST + R", 1.25, _tardis("gumbel", model__reset_gates=True)),
    ),
    "strokes": (
        Row("LSTM", {5: 3.00, 10: 3.54, 15: 8.81}, LSTM),
        Row("TARDIS + REINFORCE", {5: 2.09, 10: 2.56, 15: 3.67}, REINFORCE),
        Row("TARDIS + Gumbel ST", {5: 1.89, 10: 2.23, 15: 3.09}, GUMBEL),
    ),
    "copy": (
        Row("D-NTM continuous", "Success", {"model": "dntm"}),
        Row("D-NTM discrete", "Success", {"model": "dntm-discrete", "estimator": "reinforce"}),
        Row("NTM", "Success", {"model": "ntm"}),
        Row("TARDIS + Gumbel ST", "Success", GUMBEL),
        Row("TARDIS + REINFORCE + Aux", "Success", REINFORCE),
        Row("LSTM", None, LSTM),
    ),
    "recall": (
        Row("D-NTM continuous", "Success", {"model": "dntm"}),
        Row("D-NTM discrete", "Failure", {"model": "dntm-discrete", "estimator": "reinforce"}),
        Row("NTM", "Success", {"model": "ntm"}),
        Row("TARDIS + Gumbel ST", "Success", GUMBEL),
        Row("TARDIS + REINFORCE + Aux", "Success", REINFORCE),
        Row("LSTM", None, LSTM),
    ),
    "snli": (
        Row("Word by Word Attention", 83.5, {"model": "attention"}),
        Row("Word by Word Attention two-way", 83.2, {"model": "attention-two-way"}),
        Row("LSTM + LayerNorm + Dropout", 81.7, LSTM),
        Row("TARDIS + REINFORCE + Aux", 82.4, REINFORCE),
        Row("TARDIS + Gumbel ST", 84.3, GUMBEL),
    ),
}
OURS = ("tardis", "lstm")  # what is compared unless more is asked for: the paper's own runs


def candidates(task: str, models: tuple[str, ...] = OURS) -> tuple[Candidate, ...]:
    """The rows of the task's table that can be trained here, of these models."""
    made = [row.candidate for row in TABLES[task]]
    return tuple(each for each in made if each and each.settings["model"] in models)


def reported(task: str, label: str, task_settings: Any) -> Any | None:
    """What the paper's table says in the row of this label."""
    for row in TABLES[task]:
        if row.label == label:
            by_digits = isinstance(row.reported, Mapping)
            return row.reported.get(task_settings.digits) if by_digits else row.reported
    return None

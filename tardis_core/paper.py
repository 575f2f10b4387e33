"""The rows of the paper's result tables: the settings of each system and the reported value.

A row without settings is a system that the paper quotes and that is not trained here. Rows stand in
the order of the paper, its best system last.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PAPER_ESTIMATORS = ("gumbel", "reinforce")  # which are searched unless others are named
SUCCESS = 0.02  # nats per bit: below it copy and recall count as solved


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    label: str
    reported: Any  # a number, Success or Failure; for strokes by the number of digits
    settings: Mapping[str, Any] = field(default_factory=dict)  # model, estimator, section.key


def _tardis(estimator: str, **settings: Any) -> dict[str, Any]:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return {"model": "tardis", "estimator": estimator, **named}


LSTM = {"model": "lstm"}
GUMBEL = _tardis("gumbel")
REINFORCE = _tardis("reinforce", estimator__auxiliary=True)
WITHOUT_AUXILIARY = _tardis("reinforce", estimator__auxiliary=False)

TABLES: dict[str, tuple[Row, ...]] = {
    "ptb": (
        Row("CW-RNN", 1.46, {"model": "clockwork"}),
        Row("HF-MRNN", 1.41, {"model": "mrnn"}),
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
        Row("TARDIS + REINFORCE", {5: 2.09, 10: 2.56, 15: 3.67}, WITHOUT_AUXILIARY),
        Row("TARDIS + Gumbel ST", {5: 1.89, 10: 2.23, 15: 3.09}, GUMBEL),
    ),
    "copy": (
        Row("D-NTM continuous", "Success", {"model": "dntm"}),
        Row("D-NTM discrete", "Success", {"model": "dntm-discrete", "estimator": "reinforce"}),
        Row("NTM", "Success", {"model": "ntm"}),
        Row("LSTM", None, LSTM),
        Row("TARDIS + REINFORCE + Aux", "Success", REINFORCE),
        Row("TARDIS + Gumbel ST", "Success", GUMBEL),
    ),
    "recall": (
        Row("D-NTM continuous", "Success", {"model": "dntm"}),
        Row("D-NTM discrete", "Failure", {"model": "dntm-discrete", "estimator": "reinforce"}),
        Row("NTM", "Success", {"model": "ntm"}),
        Row("LSTM", None, LSTM),
        Row("TARDIS + REINFORCE + Aux", "Success", REINFORCE),
        Row("TARDIS + Gumbel ST", "Success", GUMBEL),
    ),
    "snli": (
        Row("Word by Word Attention", 83.5, {"model": "attention"}),
        Row("Word by Word Attention two-way", 83.2, {"model": "attention-two-way"}),
        Row("LSTM + LayerNorm + Dropout", 81.7, LSTM),
        Row("TARDIS + REINFORCE + Aux", 82.4, REINFORCE),
        Row("TARDIS + Gumbel ST", 84.3, GUMBEL),
    ),
}


# For a task that the paper does not have: what it would have trained itself.
OTHER_TASKS = (
    Row("LSTM", None, LSTM),
    Row("TARDIS + REINFORCE + Aux", None, REINFORCE),
    Row("TARDIS + Gumbel ST", None, GUMBEL),
)


def rows(task: str) -> tuple[Row, ...]:
    """The table of a task."""
    return TABLES.get(task, OTHER_TASKS)


def reported(task: str, label: str, task_settings: Any) -> Any | None:
    """The value that the paper reports in the row of this label."""
    for row in rows(task):
        if row.label == label:
            by_digits = isinstance(row.reported, Mapping)
            return row.reported.get(task_settings.digits) if by_digits else row.reported
    return None

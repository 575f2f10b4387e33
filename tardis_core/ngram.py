"""N-gram baselines for Penn Treebank: `python -m tardis_core.ngram`."""

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tardis_core.cli import Parser, command, data_parent
from tardis_core.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from tardis_core.data.ptb import TextCorpus


class NgramModel(Protocol):
    """A model of text that was counted or trained."""

    def __len__(self) -> int:
        """Its size."""

    def nats(self, text: "np.ndarray") -> "np.ndarray":
        """-ln P of every symbol of a text, each from those before it."""


class Kind(NamedTuple):
    """A kind of model: what it is called, and how it is made."""

    title: str
    size: str  # what its length counts
    orders: str  # by default
    make: Callable[[Namespace, "TextCorpus", int], NgramModel]


def _kneser_ney(options: Namespace, corpus: "TextCorpus", order: int) -> NgramModel:
    from tardis_core.models.baselines.ngram import KneserNey

    return KneserNey(corpus.train, len(corpus.symbols), order, before=_end_of_line(corpus))


def _maxent(options: Namespace, corpus: "TextCorpus", order: int) -> NgramModel:
    from tardis_core.models.baselines.maxent import MaxEnt, MaxEntConfig

    training = {name: getattr(options, name) for name in TRAINING}
    given = {name: value for name, value in training.items() if value is not None}
    config = MaxEntConfig(order, **given)
    return MaxEnt(corpus.train, len(corpus.symbols), config, before=_end_of_line(corpus))


def _end_of_line(corpus: "TextCorpus") -> int:
    from tardis_core.tasks.ptb import END_OF_LINE

    return corpus.symbols.index(END_OF_LINE)


KINDS = {
    "kneser-ney": Kind("interpolated Kneser-Ney", "n-grams", "6,7,8,9,10,11", _kneser_ney),
    "maxent": Kind("maximum-entropy n-grams", "weights", "10", _maxent),
}
# The settings of maxent with their types and help; their defaults are those of `MaxEntConfig`.
TRAINING: dict[str, tuple[type, str]] = {
    "rows": (int, "number of rows of weights that contexts are hashed to (default: 2097152)"),
    "epochs": (int, "passes over the text (default: 2)"),
    "rate": (float, "learning rate at the beginning; it falls linearly to 0 (default: 0.1)"),
}


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        prog="python -m tardis_core.ngram", description=__doc__, parents=[data_parent()]
    )
    parser.add_argument(
        "--model",
        choices=KINDS,
        default="kneser-ney",
        help="kneser-ney counts, maxent is a linear model trained by SGD (default: %(default)s)",
    )
    defaults = "; ".join(f"{name}: {kind.orders}" for name, kind in KINDS.items())
    parser.add_argument(
        "--orders",
        metavar="N,...",
        help=f"lengths of n-grams to try; the best by validation is used (default: {defaults})",
    )
    maxent = parser.add_argument_group("training of maxent")
    for name, (kind, text) in TRAINING.items():
        maxent.add_argument(f"--{name}", type=kind, help=text)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Count or train with every order, choose by validation, measure on test."""
    options = parser().parse_args(arguments)
    kind = KINDS[options.model]
    orders = _orders(options.orders or kind.orders)
    # Only now: torch takes seconds to import.
    from tardis_core.data import ptb

    corpus = ptb.load(options.data_dir, options.data)
    rows = [measure(corpus, order, partial(kind.make, options)) for order in orders]
    best = min(rows, key=lambda row: row["valid_bpc"])
    if options.json:
        print(json.dumps({"data": corpus.provenance.name, "orders": rows, "best": best["order"]}))
        return 0
    print(f"{kind.title}, data: {corpus.provenance.name}, {corpus.provenance.origin}")
    print(f"{'order':>5}{kind.size:>13}{'valid bpc':>11}{'seconds':>9}")
    for row in rows:
        print(f"{row['order']:>5}{row['size']:>13,}{row['valid_bpc']:>11.4f}{row['seconds']:>9.1f}")
    print(
        f"\ntest bpc {best['test_bpc']:.4f} with order {best['order']}, the best on validation\n"
        f"{best['symbols_per_second']:,.0f} symbols/s of text measured"
    )
    return 0


def _orders(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError as error:
        raise UserError(
            f"--orders must be whole numbers with commas, such as 6,8,10, not {text!r}"
        ) from error


def measure(
    corpus: "TextCorpus", order: int, make: Callable[["TextCorpus", int], NgramModel]
) -> dict[str, Any]:
    """BPC of one order on validation and test, its size, and how long counting or training took."""
    started = time.perf_counter()
    model = make(corpus, order)
    counted = time.perf_counter()
    bpc = {split: _bpc(model, getattr(corpus, split)) for split in ("valid", "test")}
    measured = len(corpus.valid) + len(corpus.test)
    return {
        "order": order,
        "size": len(model),
        "valid_bpc": bpc["valid"],
        "test_bpc": bpc["test"],
        "seconds": counted - started,
        "symbols_per_second": measured / (time.perf_counter() - counted),
    }


def _bpc(model: NgramModel, text: "np.ndarray") -> float:
    from tardis_core.tasks.ptb import bits

    return bits(float(model.nats(text).sum()), len(text))


if __name__ == "__main__":
    sys.exit(main())

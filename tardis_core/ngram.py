"""The classical line for Penn Treebank, by counting: `python -m tardis_core.ngram`."""

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tardis_core.cli import Parser, command, data_parent
from tardis_core.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from tardis_core.data.ptb import TextCorpus
    from tardis_core.models.baselines.ngram import KneserNey

DEFAULT_ORDERS = "6,7,8,9,10,11"


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(
        prog="python -m tardis_core.ngram", description=__doc__, parents=[data_parent()]
    )
    parser.add_argument(
        "--orders",
        default=DEFAULT_ORDERS,
        metavar="N,...",
        help="lengths of n-grams to try; validation chooses (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Count with every order, choose by validation, measure on test."""
    options = parser().parse_args(arguments)
    orders = _orders(options.orders)
    # Only now: torch takes seconds to import.
    from tardis_core.data import ptb

    corpus = ptb.load(options.data_dir, options.data)
    rows = [measure(corpus, order) for order in orders]
    best = min(rows, key=lambda row: row["valid_bpc"])
    if options.json:
        print(json.dumps({"data": corpus.provenance.name, "orders": rows, "best": best["order"]}))
        return 0
    print(f"interpolated Kneser-Ney, data: {corpus.provenance.name}, {corpus.provenance.origin}")
    print(f"{'order':>5}{'n-grams':>13}{'valid bpc':>11}{'seconds':>9}")
    for row in rows:
        print(
            f"{row['order']:>5}{row['grams']:>13,}{row['valid_bpc']:>11.4f}{row['seconds']:>9.1f}"
        )
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
            f"--orders must be whole numbers with commas, such as {DEFAULT_ORDERS}, not {text!r}"
        ) from error


def measure(corpus: "TextCorpus", order: int) -> dict[str, Any]:
    """BPC of one order on validation and test, its size, and how long counting took."""
    from tardis_core.models.baselines.ngram import KneserNey
    from tardis_core.tasks.ptb import END_OF_LINE

    started = time.perf_counter()
    end_of_line = corpus.symbols.index(END_OF_LINE)
    model = KneserNey(corpus.train, len(corpus.symbols), order, before=end_of_line)
    counted = time.perf_counter()
    bpc = {split: _bpc(model, getattr(corpus, split)) for split in ("valid", "test")}
    measured = len(corpus.valid) + len(corpus.test)
    return {
        "order": order,
        "grams": len(model),
        "valid_bpc": bpc["valid"],
        "test_bpc": bpc["test"],
        "seconds": counted - started,
        "symbols_per_second": measured / (time.perf_counter() - counted),
    }


def _bpc(model: "KneserNey", text: "np.ndarray") -> float:
    from tardis_core.tasks.ptb import bits

    return bits(float(model.nats(text).sum()), len(text))


if __name__ == "__main__":
    sys.exit(main())

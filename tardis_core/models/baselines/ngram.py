"""Interpolated Kneser-Ney: the classical model of text, counted and not trained.

Kneser & Ney 1995, in the interpolated form of Chen & Goodman 1999, section 3. For an n-gram h w,
with h' its context h without the oldest symbol,

    P(w | h) = max(c(h w) - D, 0) / c(h .) + D N(h .) / c(h .) P(w | h')

where N(h .) is the number of different symbols seen after h, and D = n1 / (n1 + 2 n2) for this
order, from the numbers n1 and n2 of n-grams counted once and twice. At the highest order c is the
number of occurrences; below, it is the number of different symbols seen *before* the n-gram. Below
the unigrams all symbols are equally likely.

An n-gram is a whole number: its symbols are the digits, the newest the last. A context is then the
number without its last digit, a shorter n-gram the number without its first ones, and all counts
are those of sorted arrays.
"""

from typing import NamedTuple

import numpy as np

from tardis_core.errors import require


class Counts(NamedTuple):
    """The n-grams of one order, and their contexts, in the order of their numbers."""

    grams: np.ndarray
    counts: np.ndarray
    contexts: np.ndarray
    totals: np.ndarray  # c(h .)
    followers: np.ndarray  # N(h .)
    discount: float


class KneserNey:
    """P(w | the last order - 1 symbols)."""

    def __init__(
        self,
        text: np.ndarray,
        symbols: int,
        order: int,
        before: int = 0,
        skipped: int | None = None,
    ) -> None:
        """Count.

        Args:
            text: symbol ids.
            symbols: how many symbols there are.
            order: n, the length of the longest n-grams.
            before: the symbol that is taken to stand before a text, as often as needed.
            skipped: the distance of a symbol that the context leaves out in favour of an older one.
        """
        require(len(text) > 0, "a text to count must have at least one symbol")
        # The numbers of n-grams, and symbols**n itself, must fit into 63 bits.
        longest = max(n for n in range(1, 63) if max(2, symbols) ** n < 2**63)
        require(
            1 <= order <= longest,
            f"the order must be from 1 to {longest} with {symbols} symbols, not {order}",
        )
        self.symbols, self.order, self.before = symbols, order, before
        self._distances = [n for n in range(order + 1) if n != skipped][:order][::-1]
        grams, counts = np.unique(self._numbers(text), return_counts=True)
        by_order = [_table(grams, counts, symbols)]
        for shorter in range(order - 1, 0, -1):
            grams, counts = np.unique(grams % symbols**shorter, return_counts=True)
            by_order.append(_table(grams, counts, symbols))
        self.by_order = by_order[::-1]  # unigrams first

    def __len__(self) -> int:
        """The number of n-grams kept, of all orders."""
        return sum(len(table.grams) for table in self.by_order)

    def nats(self, text: np.ndarray) -> np.ndarray:
        """-ln P of every symbol of a text, each from those before it."""
        numbers = self._numbers(text)
        p = np.full(len(numbers), 1 / self.symbols)
        for n, table in enumerate(self.by_order, start=1):
            p = self._interpolate(numbers % self.symbols**n, table, p)
        return -np.log(p)

    def _numbers(self, text: np.ndarray) -> np.ndarray:
        """The n-gram that ends at each symbol."""
        start = np.full(self.order, self.before)
        digits = np.concatenate([start, np.asarray(text)]).astype(np.int64)
        numbers = np.zeros(len(text), np.int64)
        for distance in self._distances:
            first = len(start) - distance
            numbers = numbers * self.symbols + digits[first : first + len(text)]
        return numbers

    def _interpolate(self, grams: np.ndarray, table: Counts, lower: np.ndarray) -> np.ndarray:
        """The probability by one order, given that by the order below."""
        counts = _look_up(grams, table.grams, table.counts)
        totals = _look_up(grams // self.symbols, table.contexts, table.totals)
        followers = _look_up(grams // self.symbols, table.contexts, table.followers)
        kept = np.maximum(counts - table.discount, 0) + table.discount * followers * lower
        # A context that was never seen says nothing: the order below decides.
        return np.where(totals > 0, kept / np.maximum(totals, 1), lower)


def _table(grams: np.ndarray, counts: np.ndarray, symbols: int) -> Counts:
    contexts, first, followers = np.unique(grams // symbols, return_index=True, return_counts=True)
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    # With none counted once the rule takes nothing off, so that unseen symbols have no chance; with
    # none counted twice it takes all of those counted once.
    discount = once / (once + 2 * twice) if once and twice else 0.5
    return Counts(grams, counts, contexts, np.add.reduceat(counts, first), followers, discount)


def _look_up(keys: np.ndarray, table_keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The value of each key, 0 where it is not known."""
    places = np.minimum(np.searchsorted(table_keys, keys), len(table_keys) - 1)
    return np.where(table_keys[places] == keys, values[places], 0)

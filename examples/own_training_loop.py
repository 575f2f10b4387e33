"""TARDIS in a training loop of your own, where `torch.nn.LSTM` would stand.

The toy: twelve random symbols go in, and the model must say at the end which one came first.

    python examples/own_training_loop.py
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

from tardis_core import Tardis

SYMBOLS, STEPS, BATCH = 8, 12, 32


class FirstSymbol(nn.Module):
    """Symbols (B, T) -> logits of the first one (B, SYMBOLS)."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = Tardis(SYMBOLS, hidden_size=32, cells=16, batch_first=True)
        self.head = nn.Linear(self.recurrent.output_size, SYMBOLS)

    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        output, _ = self.recurrent(F.one_hot(symbols, SYMBOLS).float())
        return self.head(output[:, -1])


def main(updates: int) -> float:
    """Train, and return the share of right answers on new sequences."""
    torch.manual_seed(0)
    model = FirstSymbol()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for update in range(1, updates + 1):
        symbols = torch.randint(SYMBOLS, (BATCH, STEPS))
        loss = F.cross_entropy(model(symbols), symbols[:, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 100 == 0:
            print(f"update {update:>4}  loss {loss.item():.3f}")
    model.eval()  # from here on every read is the likeliest, and nothing is random
    with torch.no_grad():
        symbols = torch.randint(SYMBOLS, (1000, STEPS))
        right = (model(symbols).argmax(-1) == symbols[:, 0]).float().mean().item()
    print(f"right on new sequences: {right:.1%} (a guess: {1 / SYMBOLS:.1%})")
    return right


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--updates", type=int, default=600)
    main(parser.parse_args().updates)

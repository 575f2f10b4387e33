"""Use TARDIS in your own training loop in place of `torch.nn.LSTM`.

A toy task: the model reads twelve random symbols and must name the first one at the end.

    python examples/own_training_loop.py
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F

from tardis_core import Tardis

SYMBOLS, STEPS, BATCH = 8, 12, 32


class FirstSymbol(nn.Module):
    """Map symbols (B, T) to the logits of the first one (B, SYMBOLS)."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = Tardis(SYMBOLS, hidden_size=32, cells=16, batch_first=True)
        self.head = nn.Linear(self.recurrent.output_size, SYMBOLS)

    def forward(self, symbols: torch.Tensor) -> torch.Tensor:
        output, _ = self.recurrent(F.one_hot(symbols, SYMBOLS).float())
        return self.head(output[:, -1])


def main(updates: int) -> float:
    """Train, and return the accuracy on new sequences."""
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
    model.eval()  # reads the most likely cell, without randomness
    with torch.no_grad():
        symbols = torch.randint(SYMBOLS, (1000, STEPS))
        accuracy = (model(symbols).argmax(-1) == symbols[:, 0]).float().mean().item()
    print(f"accuracy on new sequences: {accuracy:.1%} (chance: {1 / SYMBOLS:.1%})")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--updates", type=int, default=600)
    main(parser.parse_args().updates)

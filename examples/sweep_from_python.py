"""A sweep from Python: its leaderboard as a pandas table, its learning curves as a picture.

python examples/sweep_from_python.py
"""

import argparse

import matplotlib

matplotlib.use("Agg")  # a file is written, no window opened
import matplotlib.pyplot as plt

from orchestrator import sweep


def main(trials: int) -> None:
    """Search copy at its smallest scale, print what was found, and draw how it was learned."""
    found = sweep("copy", scale="smoke", trials=trials, estimators=["gumbel", "reinforce"])
    best = found.leaderboard  # a row a trial, the best first
    print(best[["number", "state", "objective", "estimator", "memory.cells"]].head())

    for number, curve in found.curves.groupby("number"):
        plt.plot(curve["step"], curve["valid_bce"], marker=".", label=f"trial {number}")
    plt.xlabel("updates")
    plt.ylabel("validation, nats a bit")
    plt.legend()
    plt.savefig("curves.png", dpi=120)
    print("written to curves.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=4)
    main(parser.parse_args().trials)

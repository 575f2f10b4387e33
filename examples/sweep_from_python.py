"""Run a sweep from Python, print its leaderboard and plot its learning curves.

python examples/sweep_from_python.py
"""

import argparse

import matplotlib

matplotlib.use("Agg")  # write a file instead of opening a window
import matplotlib.pyplot as plt

from orchestrator import sweep


def main(trials: int) -> None:
    """Search copy at its smallest scale, print the best trials and plot their learning curves."""
    search = sweep("copy", scale="smoke", trials=trials, estimators=["gumbel", "reinforce"])
    columns = ["number", "state", "objective", "estimator", "memory.cells"]
    print(search.leaderboard[columns].head())  # one row per trial, the best first

    for number, curve in search.curves.groupby("number"):
        plt.plot(curve["step"], curve["valid_bce"], marker=".", label=f"trial {number}")
    plt.xlabel("updates")
    plt.ylabel("validation BCE (nats per bit)")
    plt.legend()
    plt.savefig("curves.png", dpi=120)
    print("written to curves.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=4)
    main(parser.parse_args().trials)

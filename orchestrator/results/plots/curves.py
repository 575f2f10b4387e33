"""The learning curves of all trials of a search: the best highlighted, pruned ones faint."""

from orchestrator.page.page import Plot, rounded
from orchestrator.results.records import Records, TrialRecord
from orchestrator.tracking.states import State

LOOKS = {State.COMPLETE: "complete", State.FAILED: "failed"}  # others are drawn like pruned ones


def curves(records: Records) -> Plot | None:
    """One line per trial that was validated; None if there is none."""
    name, best = f"valid_{records.plan.metric}", records.best_trial()
    grids, series = Grids(), []
    for trial in records.trials.values():
        rows = [row for row in trial.rows if name in row]
        if rows:
            grid = grids.index_of([row["step"] for row in rows])
            values = rounded([row[name] for row in rows])
            look = "best" if trial.number == best else LOOKS.get(trial.state, "pruned")
            series.append({"name": _name(trial), "grid": grid, "y": values, "look": look})
    if not series:
        return None
    labels = {"xLabel": "updates", "yLabel": f"validation {records.plan.metric}"}
    return Plot("lines", "Learning curves", {**labels, "grids": grids.every, "series": series}, 380)


def _name(trial: TrialRecord) -> str:
    return f"trial {trial.number}, {trial.state}"


class Grids:
    """The places of many curves; a curve that was stopped early shares those of the longer ones."""

    def __init__(self) -> None:
        self.every: list[list[float]] = []

    def index_of(self, places: list[float]) -> int:
        """The index of a grid that begins with these places, which is added if there is none."""
        for index, grid in enumerate(self.every):
            shared = min(len(grid), len(places))
            if grid[:shared] == places[:shared]:
                self.every[index] = max(grid, places, key=len)
                return index
        self.every.append(places)
        return len(self.every) - 1

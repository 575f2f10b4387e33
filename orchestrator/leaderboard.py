"""The trials of a sweep as a table, the best first."""

import optuna
import pandas as pd
from optuna.trial import TrialState

from orchestrator.plan import SweepPlan
from orchestrator.search import open_study


def table(plan: SweepPlan) -> pd.DataFrame:
    """One row a trial: number, state, objective, steps, and what was searched."""
    study = open_study(plan.folder, plan.name)
    rows = [_row(trial, plan) for trial in study.get_trials(deepcopy=False)]
    frame = pd.DataFrame(
        rows, columns=["number", "state", "objective", "validations"] if not rows else None
    )
    order = {"complete": 0, "pruned": 1, "running": 2, "fail": 3}
    ranked = frame.assign(_rank=frame["state"].map(order).fillna(4))
    ascending = plan.better == "lower"
    return (
        ranked.sort_values(["_rank", "objective"], ascending=[True, ascending])
        .drop(columns="_rank")
        .reset_index(drop=True)
    )


def _row(trial: optuna.trial.FrozenTrial, plan: SweepPlan) -> dict[str, object]:
    seen = trial.intermediate_values
    value = trial.value if trial.state is TrialState.COMPLETE else None
    if value is None and seen:
        value = min(seen.values()) if plan.better == "lower" else max(seen.values())
    return {
        "number": trial.number,
        "state": trial.state.name.lower(),
        "objective": value,
        "validations": len(seen),
        **trial.params,
    }


def text(plan: SweepPlan, most: int = 8) -> str:
    """The leading trials for a terminal: only the columns that differ."""
    frame = table(plan).head(most)
    varying = [name for name in frame.columns[4:] if frame[name].astype(str).nunique() > 1]
    shown = frame[["number", "state", "objective", "validations", *varying[:6]]]
    shown = shown.rename(columns={"objective": plan.metric})
    return shown.to_string(index=False, na_rep="", float_format=lambda value: f"{value:.4g}")

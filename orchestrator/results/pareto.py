"""The Pareto front of a search: the trials that no other beats in both objectives."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from orchestrator.page.page import Plot, Section, Table, rounded
from orchestrator.planning.plan import SearchPlan
from orchestrator.results.records import Records, TrialRecord
from orchestrator.tracking.states import State
from tardis_core.text import aligned, number

FRONT = "pareto.csv"


class Point(NamedTuple):
    """A trial that ran to its end; of the second objective less is better."""

    trial: int
    value: float  # of the metric
    cost: float  # of the second objective


def second_objective(records: Records) -> str:
    """The name of the second objective; empty if the search has one objective."""
    plan = records.plan
    return plan.objectives[1] if isinstance(plan, SearchPlan) and plan.objectives else ""


def points(records: Records) -> list[Point]:
    """The complete trials whose objectives are both known; a pruned one has not paid its price."""
    complete = []
    for record in records.trials.values():
        value, cost = records.objective(record.number), _cost(record, second_objective(records))
        if record.state is State.COMPLETE and value is not None and cost is not None:
            complete.append(Point(record.number, value, cost))
    return complete


def _cost(record: TrialRecord, name: str) -> float | None:
    if name == "seconds":
        return record.rows[-1].get("training_seconds") if record.rows else None
    text = record.tags.get(name)
    return None if text is None else float(text)


def front(candidates: Sequence[Point], better: str) -> list[Point]:
    """The points that no other beats in both objectives, from the best value to the least cost."""
    sign = 1.0 if better == "lower" else -1.0
    chosen: list[Point] = []
    for point in sorted(candidates, key=lambda each: (sign * each.value, each.cost, each.trial)):
        if not chosen or point.cost < chosen[-1].cost:
            chosen.append(point)
    return chosen


def table(records: Records) -> pd.DataFrame:
    """One row per trial of the front."""
    names = ["number", records.plan.metric, second_objective(records)]
    return pd.DataFrame(front(points(records), records.plan.better), columns=names)


def text(records: Records) -> str:
    """The front for a terminal; empty if the search has one objective."""
    if not second_objective(records):
        return ""
    frame = table(records)
    if frame.empty:
        return "Pareto front: no trial ran to its end."
    heading = f"Pareto front of {' and '.join(frame.columns[1:])} (trials: {len(frame)}):"
    cells = pd.DataFrame(_rows(records, front(points(records), records.plan.better)))
    return f"{heading}\n{cells.to_string(index=False, header=_heads(records))}"


def section(records: Records) -> Section | None:
    """The front in the report; None if there is none to show."""
    candidates, name = points(records), second_objective(records)
    if not name or not candidates:
        return None
    best = front(candidates, records.plan.better)
    note = (
        f"The complete trials that no other beats both in {records.plan.metric} and in {name}. The "
        f"search itself used {records.plan.metric} alone."
    )
    table = Table(_heads(records), _rows(records, best))
    return Section("Pareto front", [_plot(records, candidates, best), table], note)


def _heads(records: Records) -> list[str]:
    return ["trial", records.plan.metric, second_objective(records)]


def _rows(records: Records, best: Sequence[Point]) -> list[tuple[str, ...]]:
    """The trials of a front as people read them."""
    timed = second_objective(records) == "seconds"
    columns = (
        [str(each.trial) for each in best],
        aligned([each.value for each in best]),
        [number(each.cost) if timed else f"{each.cost:.0f}" for each in best],
    )
    return list(zip(*columns, strict=True))


def _plot(records: Records, candidates: Sequence[Point], best: Sequence[Point]) -> Plot:
    def drawn(each: Sequence[Point]) -> list[list[float | None]]:
        return [[point.trial, *rounded([point.cost, point.value])] for point in each]

    labels = {"xLabel": second_objective(records), "yLabel": f"validation {records.plan.metric}"}
    values = {**labels, "points": drawn(candidates), "front": drawn(best)}
    return Plot("front", "Both objectives", values)

"""The report of a search as one page."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.page.page import (
    Code,
    Image,
    Page,
    Part,
    Plot,
    Section,
    Table,
    render,
)
from orchestrator.results import failures, pareto
from orchestrator.results.headline import facts, made_up
from orchestrator.results.leaderboard import varying_settings
from orchestrator.results.plots.curves import curves
from orchestrator.results.plots.history import history
from orchestrator.results.plots.importance import (
    ENOUGH,
    complete_trials,
    importance,
    importances,
)
from orchestrator.results.plots.parallel import parallel
from orchestrator.results.records import NAMES, RANKED_STATES, Records
from orchestrator.results.report import command_of
from tardis_core.tasks.base import TASKS
from tardis_core.text import aligned, number, short

PAGE = "report.html"


def write(records: Records, folder: Path, memory_plots: Sequence[Path] = ()) -> None:
    """Write the page of a search into a folder; the plots are those of its best trial."""
    (folder / PAGE).write_text(render(page(records, memory_plots)))


def page(records: Records, memory_plots: Sequence[Path] = ()) -> Page:
    """The page of a search."""
    plan = records.plan
    metric = TASKS.get(plan.task).metric
    command = records.commands[0] if records.commands else ""
    return Page(
        title=f"Sweep {plan.name}",
        headline=(
            f"A search over the settings of {plan.task} at scale {plan.scale}, judged by the "
            f"validation {metric.name} ({metric.unit}, {metric.better} is better)."
        ),
        figures=_figures(records),
        facts=facts(records.tags, command, records.started, records.last),
        warnings=made_up(records.tags),
        sections=list(_sections(records, memory_plots)),
    )


def _figures(records: Records) -> dict[str, str]:
    counts = Counter(trial.state for trial in records.trials.values())
    figures = {}
    if (best := records.best_trial()) is not None:
        figures[f"Best {records.plan.metric}"] = number(records.objective(best))
        figures["Best trial"] = str(best)
    figures["Trials"] = str(len(records.trials))
    return figures | {s.capitalize(): str(counts[s]) for s in RANKED_STATES if counts[s]}


def _sections(records: Records, memory_plots: Sequence[Path]) -> Iterator[Section]:
    varying = [name for name in varying_settings(records) if name != "seed"]
    shares = importances(records.study())
    yield Section("Leaderboard", [_leaderboard(records, varying)])
    if (front := pareto.section(records)) is not None:
        yield front
    yield Section("Course of the search", _drawn(curves(records), history(records)))
    yield _settings(records, shares, varying)
    if (best := records.best_trial()) is not None:
        yield _best(records, best, varying)
    if memory_plots:
        images = [Image(path.stem.replace("_", " "), path) for path in memory_plots]
        yield Section("How the best trial uses its memory", images)
    if reasons := _failures(records):
        yield Section("Failures", [reasons])


def _drawn(*plots: Plot | None) -> list[Plot]:
    return [plot for plot in plots if plot is not None]


def _leaderboard(records: Records, varying: Sequence[str]) -> Table:
    """One row per trial, the best first."""
    plan = records.plan
    outcomes = {
        "number": "trial",
        "state": "state",
        "objective": plan.metric,
        "step": "at update",
        "seconds": "seconds",
    }
    frame = records.table()[[*outcomes, *varying]]
    columns = {name: [_cell(value) for value in frame[name]] for name in frame.columns}
    for name in ("objective", "seconds"):
        columns[name] = aligned(frame[name].astype(float).tolist())
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    return Table([*outcomes.values(), *varying], rows, sortable=True)


def _cell(value: object) -> str:
    return "" if value is None or value != value else short(value)


def _settings(records: Records, shares: dict[str, float], varying: Sequence[str]) -> Section:
    """Which settings matter, and which values the good trials have."""
    names = list(shares) or _in_most_trials(records, varying)
    complete = complete_trials(records.study())
    note = "Importance: the share of the variance of the results that a setting explains (fANOVA)."
    if complete < ENOUGH:
        note = f"Importance is shown from {ENOUGH} complete trials on; there are {complete}."
    return Section("Settings", _drawn(importance(shares), parallel(records, names)), note)


def _in_most_trials(records: Records, names: Sequence[str]) -> list[str]:
    """The settings, those that most trials have first."""
    having = Counter(name for trial in records.trials.values() for name in trial.params)
    return sorted(names, key=lambda name: -having[name])


def _best(records: Records, best: int, varying: Sequence[str]) -> Section:
    """The settings of the best trial, and the command that trains it again."""
    trial = records.trials[best]
    names = [*(name for name in NAMES if name != "seed"), *varying]
    rows = [[name, short(trial.params[name])] for name in names if name in trial.params]
    unique = [row for place, row in enumerate(rows) if row not in rows[:place]]
    parts: list[Part] = [Code(command_of(records, best)), Table(["setting", "value"], unique)]
    return Section(f"Best configuration: trial {best}", parts)


def _failures(records: Records) -> Table | None:
    """Each reason once, with the trials that failed for it."""
    reasons = failures.reasons(records)
    rows = [[reason, str(len(each)), _few(each)] for reason, each in reasons.items()]
    return Table(["reason", "trials", "numbers"], rows) if rows else None


def _few(numbers: Sequence[int], most: int = 12) -> str:
    rest = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return ", ".join(map(str, numbers[:most])) + rest

"""The paper's tables of results: every system that exists here, over several seeds, by `compare`.

The runs are a comparison like any other: recorded in MLflow, resumed where they were stopped, and
not trained again where they exist.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from orchestrator import compare
from orchestrator.comparison import plots as comparison_plots
from orchestrator.comparison import report as comparison_report
from orchestrator.comparison import runs as comparison_runs
from orchestrator.comparison import tables
from orchestrator.comparison.runs import ComparisonData
from orchestrator.execution.driver import run_sweep, undelivered
from orchestrator.execution.tuner import ended
from orchestrator.paper.base import REPRODUCTIONS, Outcome, Reproduction, Request, Row
from orchestrator.planning.plan import ComparisonPlan, SweepPlan, exists, load_plan
from orchestrator.results.records import Records
from tardis_core import paper
from tardis_core.errors import UserError
from tardis_core.models.base import MODELS

SEEDS = {"smoke": 2, "small": 3, "paper": 5}


def compared(request: Request, task: str, *words: str, name: str = "") -> ComparisonData:
    """The rows of the paper's table for a task, trained; what was trained before is used.

    Args:
        words: more options of `python -m orchestrator.compare`.
        name: of the variant, where a task has several.
    """
    name = f"reproduce-{task}{name}-{request.scale}-seed{request.seed}"
    if exists(name):
        plan = load_plan(name)
        assert isinstance(plan, ComparisonPlan)
        _check_data(plan, request.data)
    else:
        options = ["--name", name, "--scale", request.scale, "--seed", str(request.seed)]
        options += ["--seeds", str(SEEDS[request.scale]), "--data", request.data]
        options += ["--data-dir", request.data_dir] if request.data_dir else []
        models = ["--models", ",".join(MODELS.names())]
        plan = compare.plan_from(compare.parser().parse_args([task, *options, *models, *words]))
    if ended(plan) < plan.trials:
        outcome = run_sweep(plan)
        for line in undelivered(plan, outcome):
            print(line)
        if not outcome.finished:
            raise UserError(f"stopped; go on with: python -m orchestrator.compare --resume {name}")
    found = comparison_runs.of_records(Records.load(plan))
    if found is None:
        raise UserError(f"no trial of {name} ran to its end; its reasons are in {plan.folder}")
    return found


def _check_data(plan: SweepPlan, asked: str) -> None:
    """Runs that exist are used; `--data real` refuses those on a stand-in."""
    if asked == "real" and Records.load(plan).tags.get("data.real") == "False":
        raise UserError(
            f"--data is real, and {plan.name} was trained on a stand-in; leave --data out, or "
            f"remove {plan.folder} to train again"
        )


def _all_compared(
    request: Request, variants: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, ComparisonData]]:
    """Every variant of a table by its label, trained."""
    for label, (task, *words) in variants.items():
        suffix = f"-{words[-1].rpartition('=')[2]}" if words else ""
        yield label, compared(request, task, *words, name=suffix)


class Table(Reproduction):
    """One task, or one task in several sizes, as the paper's table has it."""

    variants: ClassVar[dict[str, tuple[str, ...]]]  # what is compared -> task and options

    def run(self, request: Request) -> Outcome:
        rows, verdicts, files, measured_on = [], [], [], []
        for label, found in _all_compared(request, self.variants):
            variant = label if len(self.variants) > 1 else ""
            rows += _rows(found, variant)
            verdicts.append(f"{variant}: {orderings(found)}".removeprefix(": "))
            files += comparison_report.write(found, request.folder / label)
            measured_on.append(comparison_report.headline(found))
        return Outcome(rows, " ".join(verdicts), "; ".join(measured_on), files)


def _rows(found: ComparisonData, variant: str) -> list[Row]:
    made = []
    table = tables.summary(found)
    for each in table.to_dict("records"):
        ours = f"{each['mean']:.4g}"
        if each["runs"] > 1:
            ours += f" ({each['low']:.4g} to {each['high']:.4g}; {each['runs']} seeds)"
        if "solved" in each:
            ours += f", solved by {each['solved']}"
        label = f"{variant}: {each['system']}".removeprefix(": ")
        made.append(Row(label, ours, str(each.get("paper", ""))))
    return made


def orderings(found: ComparisonData) -> str:
    """The paper's order of every two systems: confirmed, refuted or undecided by the runs."""
    if not found.real:
        return "Trained on made-up data, which says nothing of the paper's."
    if found.task in ("copy", "recall"):
        return _successes(found)
    reported = {
        group.label: paper.reported(found.task, group.label, group.config.task_settings)
        for group in found.groups
    }
    lower = found.metric.better == "lower"
    counts = {"confirmed": 0, "refuted": 0, "undecided": 0}
    for row in tables.differences(found).to_dict("records"):
        first, second = reported[row["better"]], reported[row["than"]]
        if first is None or second is None or first == second:
            continue
        agrees = (first < second) == lower
        decided = "confirmed" if agrees else "refuted"
        counts[decided if row["verdict"] == "yes" else "undecided"] += 1
    told = ", ".join(f"{count} {what}" for what, count in counts.items())
    return f"Of the paper's orderings of two systems at this scale: {told}."


def _successes(found: ComparisonData) -> str:
    told = []
    for row in tables.summary(found).to_dict("records"):
        if row.get("paper"):
            told.append(f"{row['system']} {row['solved']} (the paper: {row['paper']})")
    return f"Solved, which is below {paper.SUCCESS} nats a bit: {'; '.join(told)}."


@REPRODUCTIONS.register("table-ptb")
class Ptb(Table):
    """Bits a symbol of character-level Penn Treebank."""

    title = "Penn Treebank, bits a symbol"
    costs: ClassVar = {"smoke": "3 min", "small": "20 h", "paper": "weeks"}
    variants: ClassVar = {"ptb": ("ptb",)}


@REPRODUCTIONS.register("table-strokes")
class Strokes(Table):
    """Errors a digit of the pen-stroke task with 5, 10 and 15 digits."""

    title = "pen-stroke MNIST with 5, 10 and 15 digits, error a digit"
    costs: ClassVar = {"smoke": "3 min", "small": "10 h", "paper": "weeks"}
    variants: ClassVar = {
        f"{digits} digits": ("strokes", "--set", f"task.digits={digits}") for digits in (5, 10, 15)
    }


@REPRODUCTIONS.register("table-ntm")
class Ntm(Table):
    """Success on copy and associative recall."""

    title = "copy and associative recall, solved or not"
    costs: ClassVar = {"smoke": "4 min", "small": "20 h", "paper": "days"}
    variants: ClassVar = {"copy": ("copy",), "recall": ("recall",)}


@REPRODUCTIONS.register("table-snli")
class Snli(Table):
    """Accuracy on natural language inference."""

    title = "natural language inference, accuracy"
    costs: ClassVar = {"smoke": "2 min", "small": "6 h", "paper": "weeks"}
    variants: ClassVar = {"snli": ("snli",)}


@REPRODUCTIONS.register("figure-learning-curves")
class LearningCurves(Reproduction):
    """The curves of the runs of table-strokes; whichever is made first trains them."""

    title = "learning curves of pen-stroke MNIST with 5, 10 and 15 digits"
    costs = Strokes.costs

    def run(self, request: Request) -> Outcome:
        rows, files, measured_on = [], [], []
        for label, found in _all_compared(request, Strokes.variants):
            folder = request.folder / label
            folder.mkdir(exist_ok=True)
            pictures = comparison_plots.draw(found, folder)
            files += [path for path in pictures.values() if "curves" in path.name]
            rows += _rows(found, label)
            measured_on.append(comparison_report.headline(found))
        told = "TARDIS faster than the LSTM, Gumbel faster than REINFORCE"
        verdict = f"The paper's claim is: {told}. The pictures show what these runs say of it."
        return Outcome(rows, verdict, "; ".join(measured_on), files)

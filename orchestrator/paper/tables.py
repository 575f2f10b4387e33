"""The paper's tables of results: every system that exists here, with several seeds.

The runs are a comparison like any other: recorded in MLflow, resumed where they were stopped, and
not trained again where they exist.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from orchestrator import sweep_session
from orchestrator.comparison import page as comparison_page
from orchestrator.comparison import plots as comparison_plots
from orchestrator.comparison import report as comparison_report
from orchestrator.comparison import runs as comparison_runs
from orchestrator.comparison import tables
from orchestrator.comparison.runs import ComparisonData
from orchestrator.execution.driver import undelivered
from orchestrator.execution.tuner import ended
from orchestrator.paper.base import REPRODUCTIONS, Outcome, Reproduction, Request, Row
from orchestrator.planning.options import ComparisonOptions
from orchestrator.planning.placement import AUTO
from orchestrator.planning.plan import ComparisonPlan, exists
from orchestrator.planning.planner import plan_from
from orchestrator.results.records import Records
from tardis_core import paper
from tardis_core.errors import UserError
from tardis_core.training.schedule import TrainingConfig

SEEDS = {"smoke": 2, "small": 3, "paper": 5}
DEFAULT_PRECISION = TrainingConfig().precision

# What is trained at scale paper: the paper's own system, and the LSTM that it is compared with.
PTB_ROWS = ("LSTM + LayerNorm + Dropout", "TARDIS + REINFORCE + Aux + R", "TARDIS + Gumbel ST + R")
PTB_256 = {
    "model.hidden": 256,
    "model.recurrent_dropout": 0.05,
    "training.updates": 25_056,  # 12 epochs
}
STROKES_ROWS = ("LSTM", "TARDIS + Gumbel ST")
SNLI_ROWS = (
    "Word by Word Attention",
    "LSTM + LayerNorm + Dropout",
    "TARDIS + REINFORCE + Aux",
    "TARDIS + Gumbel ST",
)


class Variant(NamedTuple):
    """A task, or one size of a task or of its models, that a table reports."""

    task: str
    size: str = ""  # in the name of its comparison
    set: Mapping[str, Any] = {}  # settings of every run
    rows: tuple[str, ...] = ()  # labels of the paper's rows to train; empty: all that exist here
    seeds: int | None = None  # None: those of the scale

    @property
    def name(self) -> str:
        """The name of its comparison, without scale and seed."""
        return f"{self.task}-{self.size}" if self.size else self.task

    @property
    def part(self) -> str:
        """Its name among the parts of its table."""
        return self.size or self.task

    @property
    def candidates(self) -> tuple[str, ...]:
        """What to train, as options of `compare`; empty: the paper's rows."""
        return tuple(_candidate(row) for row in paper.rows(self.task) if row.label in self.rows)


def _candidate(row: paper.Row) -> str:
    settings = dict(row.settings)
    model, estimator = settings.pop("model"), settings.pop("estimator", None)
    what = f"{model}:{estimator}" if estimator else model
    return ",".join([what, *(f"{key}={value}" for key, value in settings.items())]) + (
        f",label={row.label}"
    )


def compared(request: Request, variant: Variant) -> ComparisonData:
    """The trained rows of the paper's table for a task; runs that exist are used."""
    plan = _plan(request, variant)
    if ended(plan) < plan.trials:
        outcome = sweep_session.run(plan)
        for line in undelivered(plan, outcome):
            print(line)
        if not outcome.finished:
            raise UserError(f"{plan.name} was stopped; the same command continues it")
    comparison = comparison_runs.of_records(Records.load(plan))
    if comparison is None:
        raise UserError(f"no trial of {plan.name} ran to its end; the reasons are in {plan.folder}")
    return comparison


def _plan(request: Request, variant: Variant) -> ComparisonPlan:
    name = f"reproduce-{variant.name}-{request.scale}-seed{request.seed}"
    settings = dict(variant.set)
    if request.precision != DEFAULT_PRECISION:
        name += f"-{request.precision}"
        settings["training.precision"] = request.precision
    if exists(name):
        plan = plan_from(
            ComparisonOptions(
                resume=name, concurrency=request.concurrency, data_dir=request.data_dir
            )
        )
        _check_data(plan, request.data)
        return plan
    return sweep_session.plan_for(
        ComparisonOptions(
            task=variant.task,
            name=name,
            scale=request.scale,
            set=settings,
            seed=request.seed,
            seeds=variant.seeds or SEEDS[request.scale],
            models=_models_of_table(variant.task),
            candidate=variant.candidates,
            gpus_per_trial=0.0 if request.device == "cpu" else AUTO,
            concurrency=request.concurrency,
            data=request.data,
            data_dir=request.data_dir,
        )
    )


def _models_of_table(task: str) -> tuple[str, ...]:
    """The models of the paper's table that exist here, each once."""
    models = (row.settings.get("model") for row in paper.rows(task))
    return tuple(dict.fromkeys(model for model in models if model))


def _check_data(plan: ComparisonPlan, source: str) -> None:
    """Refuse existing runs on a stand-in if `--data real` was asked for."""
    if source == "real" and Records.load(plan).tags.get("data.real") == "False":
        raise UserError(
            f"--data is real, and {plan.name} was trained on a stand-in; omit --data, or "
            f"remove {plan.folder} to train again"
        )


def _all_compared(
    request: Request, variants: Mapping[str, Variant]
) -> Iterator[tuple[str, ComparisonData]]:
    """Every variant of a table by its label, trained."""
    for label, variant in variants.items():
        yield label, compared(request, variant)


class Table(Reproduction):
    """One task, or one task in several sizes, as in the paper's table."""

    variants: ClassVar[Mapping[str, Variant]]  # by label
    at_paper_scale: ClassVar[Mapping[str, Variant]] = {}  # where they are others

    @classmethod
    def variants_at(cls, scale: str) -> Mapping[str, Variant]:
        """What the table trains at a scale, by label."""
        return cls.at_paper_scale if scale == "paper" and cls.at_paper_scale else cls.variants

    @classmethod
    def parts(cls, scale: str) -> Sequence[str]:
        variants = cls.variants_at(scale).values()
        return [each.part for each in variants] if len(variants) > 1 else ()

    @classmethod
    def asked_for(cls, request: Request) -> Mapping[str, Variant]:
        """The variants that a request is about, by label."""
        variants = cls.variants_at(request.scale)
        wanted = {request.part} if request.part else {each.part for each in variants.values()}
        return {label: each for label, each in variants.items() if each.part in wanted}

    def run(self, request: Request) -> Outcome:
        rows, verdicts, files, measured_on = [], [], [], []
        variants = self.asked_for(request)
        for label, comparison in _all_compared(request, variants):
            prefix = label if len(variants) > 1 else ""
            rows += _rows(comparison, prefix)
            verdicts.append(f"{prefix}: {orderings(comparison)}".removeprefix(": "))
            files += comparison_page.write(comparison, request.folder / label)
            measured_on.append(comparison_report.headline(comparison))
        return Outcome(rows, " ".join(verdicts), "; ".join(measured_on), files)


def _rows(comparison: ComparisonData, prefix: str) -> list[Row]:
    rows = []
    for each in tables.summary(comparison).to_dict("records"):
        ours = f"{each['mean']:.4g}"
        if each["runs"] > 1:
            ours += f" ({each['low']:.4g} to {each['high']:.4g}; {each['runs']} seeds)"
        if "solved" in each:
            ours += f", solved by {each['solved']}"
        label = f"{prefix}: {each['candidate']}".removeprefix(": ")
        rows.append(Row(label, ours, str(each.get("paper", ""))))
    return rows


def orderings(comparison: ComparisonData) -> str:
    """How many of the paper's orderings of two systems the runs confirm, refute or leave open."""
    if not comparison.real:
        return "Trained on a stand-in, which says nothing about the paper's data."
    if comparison.task in ("copy", "recall"):
        return _solved(comparison)
    reported = {
        group.label: paper.reported(comparison.task, group.label, group.config.task_settings)
        for group in comparison.groups
    }
    lower = comparison.metric.better == "lower"
    counts = {"confirmed": 0, "refuted": 0, "undecided": 0}
    for row in tables.differences(comparison).to_dict("records"):
        first, second = reported[row["better"]], reported[row["than"]]
        if first is None or second is None or first == second:
            continue
        agrees = (first < second) == lower
        decided = "confirmed" if agrees else "refuted"
        counts[decided if row["verdict"] == "yes" else "undecided"] += 1
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return f"The paper's orderings of two systems at this scale: {summary}."


def _solved(comparison: ComparisonData) -> str:
    """How many seeds of each system solve the task."""
    systems = [
        f"{row['candidate']} {row['solved']} (the paper: {row['paper']})"
        for row in tables.summary(comparison).to_dict("records")
        if row.get("paper")
    ]
    return f"Solved (below {paper.SUCCESS} nats per bit): {'; '.join(systems)}."


@REPRODUCTIONS.register("table-ptb")
class Ptb(Table):
    """Bits per symbol on character-level Penn Treebank."""

    title = "Penn Treebank, bits per symbol"
    costs: ClassVar = {"smoke": "3 min", "small": "20 h", "paper": "15 h"}
    variants: ClassVar = {"ptb": Variant("ptb")}
    at_paper_scale: ClassVar = {
        "512 hidden units": Variant("ptb", "512", {"model.hidden": 512}, PTB_ROWS, seeds=1),
        "256 hidden units": Variant("ptb", "256", PTB_256, (PTB_ROWS[0], PTB_ROWS[-1]), seeds=3),
        "256 hidden units, REINFORCE": Variant(
            "ptb", "256-reinforce", PTB_256, (PTB_ROWS[1],), seeds=3
        ),
        "1000 hidden units": Variant(
            "ptb", "1000", {"training.updates": 20_880}, (PTB_ROWS[0], PTB_ROWS[-1]), seeds=1
        ),
    }


@REPRODUCTIONS.register("table-strokes")
class Strokes(Table):
    """Per-digit error rates of the pen-stroke task with 5, 10 and 15 digits."""

    title = "pen-stroke MNIST with 5, 10 and 15 digits, per-digit error rate"
    costs: ClassVar = {"smoke": "3 min", "small": "10 h", "paper": "4 h"}
    variants: ClassVar = {
        f"{digits} digits": Variant("strokes", str(digits), {"task.digits": digits})
        for digits in (5, 10, 15)
    }
    # REINFORCE, whose row lies between the two others, can be left out; longer sequences have one
    # epoch.
    at_paper_scale: ClassVar = {
        "5 digits": Variant("strokes", "5", {"task.digits": 5}, STROKES_ROWS, seeds=3),
        "5 digits, REINFORCE": Variant(
            "strokes", "5-reinforce", {"task.digits": 5}, ("TARDIS + REINFORCE",), seeds=3
        ),
        **{
            f"{digits} digits": Variant(
                "strokes",
                str(digits),
                {"task.digits": digits, "training.updates": 3125},
                STROKES_ROWS,
                seeds=1,
            )
            for digits in (10, 15)
        },
    }


@REPRODUCTIONS.register("table-ntm")
class Ntm(Table):
    """Success on copy and associative recall."""

    title = "copy and associative recall, solved or not"
    costs: ClassVar = {"smoke": "4 min", "small": "20 h", "paper": "days"}
    variants: ClassVar = {task: Variant(task) for task in ("copy", "recall")}


@REPRODUCTIONS.register("table-snli")
class Snli(Table):
    """Accuracy on natural language inference."""

    title = "natural language inference, accuracy"
    costs: ClassVar = {"smoke": "2 min", "small": "6 h", "paper": "a day"}
    variants: ClassVar = {"snli": Variant("snli")}
    at_paper_scale: ClassVar = {"snli": Variant("snli", rows=SNLI_ROWS, seeds=3)}


@REPRODUCTIONS.register("figure-learning-curves")
class LearningCurves(Reproduction):
    """The learning curves of the runs of table-strokes; whichever comes first trains them."""

    title = "learning curves of pen-stroke MNIST with 5, 10 and 15 digits"
    costs = Strokes.costs

    @classmethod
    def parts(cls, scale: str) -> Sequence[str]:
        return Strokes.parts(scale)

    def run(self, request: Request) -> Outcome:
        rows, files, measured_on = [], [], []
        for label, comparison in _all_compared(request, Strokes.asked_for(request)):
            folder = request.folder / label
            folder.mkdir(exist_ok=True)
            plots = comparison_plots.draw(comparison, folder)
            files += [path for path in plots.values() if "curves" in path.name]
            rows += _rows(comparison, label)
            measured_on.append(comparison_report.headline(comparison))
        verdict = (
            "The paper claims that TARDIS learns faster than the LSTM, and Gumbel faster than "
            "REINFORCE. The plots show whether these runs do."
        )
        return Outcome(rows, verdict, "; ".join(measured_on), files)

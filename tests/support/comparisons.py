"""Comparisons as if they had run, as data for tables and reports."""

from orchestrator.comparison import runs
from orchestrator.results.records import Records
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import SweepStarted
from tests.support.sweep_logs import COMPLETE, FAILED, comparison_plan, params_of, record


def start(plan, **tags):
    """Record the start of a sweep on real data, and save its plan."""
    log = EventLog(plan.folder)
    log.append(SweepStarted(plan.name, {"data": "copy", "data.real": "True", **tags}))
    log.close()
    plan.save()


def data_of(plan):
    """What has been measured so far."""
    return runs.of_records(Records.load(plan))


def compared(values, seeds=(1, 2), name="c", tests=None, **tags):
    """A comparison with these validations per candidate, one per seed; None is a failed run.

    Args:
        tests: results on the test split, in the same form.
    """
    plan = comparison_plan(name, labels=tuple(values), seeds=seeds)
    start(plan, **tags)
    for job in plan.jobs():
        label, place = job.candidate.label, plan.seeds.index(job.seed)
        value = values[label][place]
        test = tests[label][place] if tests else None
        rows, ending = ([], FAILED) if value is None else ([value], COMPLETE)
        record(plan, job.number, rows, ending, params_of(3e-3, job.seed), test)
    return plan, data_of(plan)

"""The data of a sweep: the same for all of its trials, whenever they are trained."""

from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from orchestrator.planning.configs import base_config
from orchestrator.planning.plan import SweepPlan
from tardis_core.build import load_data
from tardis_core.data.dataset import Provenance
from tardis_core.data.files import data_dir
from tardis_core.errors import UserError
from tardis_core.tasks.base import TASKS

Plan = TypeVar("Plan", bound=SweepPlan)


class SweepData(NamedTuple):
    """The data of a sweep, with the plan that names it."""

    plan: SweepPlan
    values: Any  # as the task loads it; None where batches are generated
    source: Provenance


def load(plan: SweepPlan) -> SweepData:
    """The data of a plan; raises `UserError` if earlier trials had other data."""
    config = base_config(plan)
    values = load_data(config, plan.data_dir, plan.data)
    source = TASKS.get(plan.task).provenance(config.task_settings, values)
    _check(plan, source)
    named = named_after(plan, source.name, source.sha256, source.real)
    return SweepData(named if values is None else _with_folder(named), values, source)


def named_after(plan: Plan, name: str, sha256: str, real: bool) -> Plan:
    """The plan of a sweep on this data; one on a stand-in stays with the stand-in."""
    source = plan.data if real else "standin"
    return replace(plan, data_name=name, data_sha256=sha256, data=source)


def _with_folder(plan: SweepPlan) -> SweepPlan:
    """The plan with the folder of its data in full: TARDIS_DATA may be another one later."""
    folder = data_dir(plan.data_dir)
    return plan if folder is None else replace(plan, data_dir=str(folder.absolute()))


def _check(plan: SweepPlan, source: Provenance) -> None:
    if plan.data_name and (plan.data_name, plan.data_sha256) != (source.name, source.sha256):
        raise UserError(
            f"the trials of {plan.name} were trained on {plan.data_name} "
            f"({plan.data_sha256[:12]}), not on {source.name} ({source.sha256[:12]}); give that "
            "data with --data-dir, or start a new sweep"
        )

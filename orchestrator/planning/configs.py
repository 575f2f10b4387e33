"""From a plan to the configurations of its trials and the space that it searches."""

from typing import Any

import search_spaces
from orchestrator.common import permissions
from orchestrator.planning.plan import ComparisonPlan, SearchPlan, SweepPlan
from tardis_core.config import Config, has_setting, make_config
from tardis_core.errors import UserError


def trial_config(task: str, scale: str, seed: int, settings: dict[str, Any]) -> Config:
    """The resolved configuration of a trial from its settings, as a search space returns them."""
    overrides = {key: value for key, value in settings.items() if "." in key}
    return make_config(
        task,
        settings.get("model", "tardis"),
        settings.get("estimator"),
        scale,
        settings.get("seed", seed),
        overrides,
    )


def params_of_config(config: Config) -> dict[str, Any]:
    """The settings of a configuration by name, with its task, model, estimator, scale and seed."""
    return {
        "task": config.task,
        "model": config.model,
        "estimator": config.estimator,
        "scale": config.scale,
        "seed": config.seed,
        **config.settings(),
    }


def base_config(plan: SweepPlan) -> Config:
    """The configuration of the task that all trials share: what the data depends on."""
    fixed = {key: value for key, value in plan.fixed.items() if key.startswith("task.")}
    return make_config(plan.task, scale=plan.scale, seed=plan.seed, overrides=fixed)


def first_configs(plan: SweepPlan) -> list[Config]:
    """The candidates of a comparison, or the first guesses of a search (or its defaults)."""
    match plan:
        case ComparisonPlan():
            settings = [each.settings for each in plan.candidates]
        case SearchPlan():
            settings = [_settings(plan, guess) for guess in space_of(plan).first_guesses() or [{}]]
    return [trial_config(plan.task, plan.scale, plan.seed, each) for each in settings]


def _settings(plan: SearchPlan, guess: dict[str, Any]) -> dict[str, Any]:
    """The settings of a trial with the parameters of a guess, and with what it has of --set."""
    chosen = {k: value for k, value in guess.items() if "." in k or k in ("model", "estimator")}
    system = plan.task, chosen.get("model", "tardis"), chosen.get("estimator")
    return {**chosen, **{k: v for k, v in plan.fixed.items() if has_setting(*system, k)}}


def space_of(plan: SearchPlan) -> search_spaces.BoundSpace:
    """The space of a search, as a function of an Optuna trial."""
    path, task = plan.space_path, plan.task
    if path and plan.folder.exists():
        permissions.check_folder(plan.folder)  # before any code of it runs
    try:
        module = search_spaces.load_file(path, task) if path else search_spaces.load(task)
        fixed = search_spaces.fix(module, plan.fixed)
        return search_spaces.bind(fixed, plan.scale, plan.estimators, plan.models)
    except ValueError as error:
        raise UserError(str(error)) from error

"""The configuration of a run: a task, a model, an estimator, and every setting of each.

Settings live in sections (`task`, `model`, `memory`, `estimator`, `training`), each a frozen
dataclass beside the code that uses it. A setting is named `section.key`. Values come, the later
the stronger, from the dataclass, the task's preset for the scale, the task's recipe for the model
and the estimator, and the user.
"""

import dataclasses
import difflib
import functools
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tardis_core.errors import UserError, choices, require
from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS, ModelConfig
from tardis_core.scales import SCALES
from tardis_core.settings import help_of
from tardis_core.tasks.base import TASKS
from tardis_core.text_values import to_type
from tardis_core.training.schedule import TrainingConfig

NO_ESTIMATOR = "none"  # of a model that makes no discrete choice
SEEDS = 2**63  # NumPy takes no negative seed, torch none above this


@dataclass(frozen=True)
class Config:
    """A resolved run: everything needed to make it again, but for the data."""

    task: str
    model: str
    estimator: str
    scale: str
    seed: int
    task_settings: Any
    model_settings: ModelConfig
    memory_settings: Any | None
    estimator_settings: Any | None
    training: TrainingConfig

    @property
    def system(self) -> str:
        """The name of the trained system in tables: the model, and its estimator if it has one."""
        return self.model if self.estimator == NO_ESTIMATOR else f"{self.model} {self.estimator}"

    def sections(self) -> dict[str, Any]:
        """The sections that this run has, by the names that settings are called by."""
        every = {
            "task": self.task_settings,
            "model": self.model_settings,
            "memory": self.memory_settings,
            "estimator": self.estimator_settings,
            "training": self.training,
        }
        return {name: section for name, section in every.items() if section is not None}

    def settings(self) -> dict[str, Any]:
        """All settings as {"section.key": value}."""
        return {
            f"{section}.{field.name}": getattr(values, field.name)
            for section, values in self.sections().items()
            for field in dataclasses.fields(values)
        }

    def help(self) -> dict[str, str]:
        """A sentence for each setting, by the names of `settings`."""
        return {
            f"{section}.{name}": text
            for section, values in self.sections().items()
            for name, text in help_of(values).items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and checkpoints; `config_from_dict` reads it."""
        names = {name: getattr(self, name) for name in ("task", "model", "estimator")}
        return {**names, "scale": self.scale, "seed": self.seed, "settings": self.settings()}


def make_config(
    task: str,
    model: str = "tardis",
    estimator: str | None = None,
    scale: str = "small",
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
) -> Config:
    """Resolve a run from names and the settings that differ from the defaults.

    Values of `overrides` may be text, as on a command line; they are read by the type of the field.
    """
    if scale not in SCALES:
        raise UserError(f"unknown scale {scale!r}; choose one of: {', '.join(SCALES)}")
    _check_seed(seed)
    estimator = _estimator_for(model, estimator)
    task_class, sections = TASKS.get(task), _section_classes(task, model, estimator)
    defaults = dict(task_class.presets[scale])
    for who in (model, estimator, f"{model}:{estimator}"):
        for part in (who, f"{who}@{scale}"):
            defaults |= task_class.recipes.get(part, {})
    # A preset speaks of TARDIS's memory and gates too; a model without them leaves that out.
    applicable = {key: value for key, value in defaults.items() if _has(sections, key)}
    return _build(task, model, estimator, scale, seed, sections, applicable | dict(overrides or {}))


def lengthened(config: Config, updates: Any) -> Config:
    """The same run with another number of updates, which may be text."""
    count = convert("training.updates", updates, int)
    return dataclasses.replace(config, training=dataclasses.replace(config.training, updates=count))


def changed(config: Config, overrides: Mapping[str, Any], seed: int | None = None) -> Config:
    """The same run with other settings, whose values may be text, and with another seed."""
    values = config.to_dict()
    if seed is not None:
        _check_seed(seed)
        values["seed"] = seed
    return config_from_dict({**values, "settings": {**values["settings"], **overrides}})


def _check_seed(seed: int) -> None:
    require(0 <= seed < SEEDS, f"the seed must be from 0 to {SEEDS - 1}, not {seed}")


def has_setting(task: str, model: str, estimator: str | None, key: str) -> bool:
    """Whether a run of these names has a setting called `key`."""
    return key in setting_names(task, model, estimator)


def setting_names(task: str, model: str, estimator: str | None) -> frozenset[str]:
    """All settings of a run of these names."""
    sections = _section_classes(task, model, _estimator_for(model, estimator))
    return _all_names(tuple(sections.items()))


@functools.cache  # a search asks for thousands of settings
def _all_names(sections: tuple[tuple[str, type], ...]) -> frozenset[str]:
    return frozenset(f"{section}.{name}" for section, cls in sections for name in _names(cls))


def config_from_dict(values: Mapping[str, Any]) -> Config:
    """The inverse of `Config.to_dict`."""
    task, model, estimator = values["task"], values["model"], values["estimator"]
    sections, settings = _section_classes(task, model, estimator), _renamed(values["settings"])
    return _build(task, model, estimator, values["scale"], values["seed"], sections, settings)


# Settings that are gone, with the value that switched them off: a run that has it still loads.
RETIRED = {
    "memory.fewest": 1.0,
    "memory.fewest_from": 0.0,
    "training.best_from": 0.0,
    "estimator.entropy_final": 0.0,
    "estimator.tried": 0,
    "estimator.copies": 1,
}
# Settings of REINFORCE that are estimators of their own by now.
MOVED = {
    "estimator.tried": "estimator.window of the estimator counterfactual",
    "estimator.copies": "a setting of the estimator rloo",
}


def _renamed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Saved settings under their names of today."""
    start = settings.get("memory.fewest_from", 0.0)
    if (settings.get("memory.fewest"), settings.get("training.best_from")) == (0.25, start):
        gone = ("memory.fewest", "memory.fewest_from", "training.best_from")
        settings = {key: value for key, value in settings.items() if key not in gone}
        settings["memory.vary_cells_from"] = start
    if "task.grow_until" in settings:  # it counted updates
        share = float(settings["task.grow_until"]) / float(settings["training.updates"])
        rest = {key: value for key, value in settings.items() if key != "task.grow_until"}
        settings = {**rest, "task.grow_share": share}
    return {key: value for key, value in settings.items() if value != RETIRED.get(key, ...)}


def _estimator_for(model: str, estimator: str | None) -> str:
    if MODELS.get(model).discrete:
        ESTIMATORS.get(estimator or "gumbel")
        return estimator or "gumbel"
    if estimator not in (None, NO_ESTIMATOR):
        discrete = choices(name for name in MODELS.names() if MODELS.get(name).discrete)
        raise UserError(
            f"model {model!r} makes no discrete choice, so estimator {estimator!r} does not apply; "
            f"leave it out, or choose a model that does: {discrete}"
        )
    return NO_ESTIMATOR


def _section_classes(task: str, model: str, estimator: str) -> dict[str, type]:
    model_class = MODELS.get(model)
    sections = {
        "task": TASKS.get(task).Config,
        "model": model_class.Config,
        "memory": model_class.Memory,
        "estimator": None if estimator == NO_ESTIMATOR else ESTIMATORS.get(estimator).Config,
        "training": TrainingConfig,
    }
    return {name: section for name, section in sections.items() if section is not None}


def _has(sections: Mapping[str, type], key: str) -> bool:
    section, _, field = key.partition(".")
    return section in sections and field in _names(sections[section])


@functools.cache
def _names(section: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(section))


def _build(
    task: str,
    model: str,
    estimator: str,
    scale: str,
    seed: int,
    sections: Mapping[str, type],
    settings: Mapping[str, Any],
) -> Config:
    values: dict[str, dict[str, Any]] = {name: {} for name in sections}
    for key, value in settings.items():
        kind = _field_type(key, sections)
        section, _, field = key.partition(".")
        values[section][field] = convert(key, value, kind)
    built = {name: cls(**values[name]) for name, cls in sections.items()}
    return Config(
        task=task,
        model=model,
        estimator=estimator,
        scale=scale,
        seed=seed,
        task_settings=built["task"],
        model_settings=built["model"],
        memory_settings=built.get("memory"),
        estimator_settings=built.get("estimator"),
        training=built["training"],
    )


@functools.cache
def _types(section: type) -> dict[str, Any]:
    """The types of the fields; kept, as working them out takes longer than all the rest."""
    return typing.get_type_hints(section)


def _field_type(key: str, sections: Mapping[str, type]) -> Any:
    """The type of a setting; a wrong name is answered with the right ones."""
    section, _, field = key.partition(".")
    if section not in sections:
        raise UserError(
            f"unknown setting {key!r}: settings are section.key=value with a section of this run: "
            f"{', '.join(sections)}"
        )
    hints = _types(sections[section])
    names = _names(sections[section])
    if field not in names:
        if key in MOVED:
            raise UserError(f"{key} is no setting of this estimator: it is {MOVED[key]} now")
        close = difflib.get_close_matches(field, names, n=1)
        hint = f" (did you mean {section}.{close[0]}?)" if close else ""
        valid = choices(f"{section}.{name}" for name in names) or "none"
        raise UserError(f"unknown setting {key!r}{hint}; {section} has: {valid}")
    return hints[field]


def convert(key: str, value: Any, kind: Any) -> Any:
    """`value` as the type of the setting, or an error with the rule, the value and the choices."""
    if typing.get_origin(kind) is Literal:
        options = typing.get_args(kind)
        for option in options:
            if value in (option, str(option)):
                return option
        raise UserError(f"{key} must be one of {', '.join(map(str, options))}, not {value!r}")
    if isinstance(kind, types.UnionType):
        raise TypeError(f"{key}: a setting has one type, not {kind}")
    try:
        return to_type(value, kind)
    except ValueError as error:
        raise UserError(f"{key} {error}") from error

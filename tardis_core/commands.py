"""Configurations as commands: so that every result can say how to make it again."""

import shlex

from tardis_core.config import NO_ESTIMATOR, Config, make_config


def training_command(config: Config, directory: str | None = None, source: str = "auto") -> str:
    """The command that trains a configuration: what differs from its defaults is named.

    Args:
        directory, source: of the data, as `--data-dir` and `--data` have them.
    """
    plain = make_config(config.task, config.model, config.estimator, config.scale).settings()
    changed = {key: value for key, value in config.settings().items() if value != plain[key]}
    words = ["python", "-m", "tardis_core.train", config.task, "--model", config.model]
    if config.estimator != NO_ESTIMATOR:
        words += ["--estimator", config.estimator]
    words += ["--scale", config.scale, "--seed", str(config.seed)]
    words += [word for key, value in changed.items() for word in ("--set", f"{key}={value}")]
    return shlex.join([*words, *data_options(directory, source)])


def data_options(directory: str | None, source: str) -> list[str]:
    """The words that make a command find the same data again; none if it needs no telling."""
    words = ["--data-dir", directory] if directory else []
    return words + (["--data", source] if source != "auto" else [])

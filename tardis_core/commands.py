"""Configurations as commands: so that every result can say how to make it again."""

from tardis_core.config import NO_ESTIMATOR, Config, make_config


def training_command(config: Config) -> str:
    """The command that trains a configuration: what differs from its defaults is named."""
    plain = make_config(config.task, config.model, config.estimator, config.scale).settings()
    changed = {key: value for key, value in config.settings().items() if value != plain[key]}
    words = [f"python -m tardis_core.train {config.task} --model {config.model}"]
    if config.estimator != NO_ESTIMATOR:
        words.append(f"--estimator {config.estimator}")
    words += [f"--scale {config.scale}", f"--seed {config.seed}"]
    words += [f"--set {key}={value}" for key, value in changed.items()]
    return " ".join(words)

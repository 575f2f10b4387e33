"""Options from a file: those of the command, or the configuration of a run."""

import json

import pytest

from orchestrator.planning.arguments import comparison_options, search_options
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.train import parsed
from tardis_core.train_session import TrainOptions

OPTIONS = """
task: recall
scale: smoke
seed: 3
set:
  memory: {cells: 8}
  training.learning_rate: 1e-3
"""


@pytest.fixture
def best(tmp_path):
    """The best_config.json of a sweep, and the configuration in it."""
    overrides = {"memory.cells": 4, "training.learning_rate": 0.002}
    config = make_config("copy", "tardis", "reinforce", "smoke", 7, overrides)
    path = tmp_path / "best_config.json"
    path.write_text(json.dumps({"number": 3, "bce": 0.1, "config": config.to_dict()}))
    return str(path), config


def train_options(*arguments):
    values = parsed(arguments)
    del values["help_settings"]
    return TrainOptions(**values)


def write(tmp_path, text):
    path = tmp_path / "options.yaml"
    path.write_text(text)
    return str(path)


def test_a_training_takes_its_options_from_a_file_and_the_command_overrides_it(tmp_path):
    path = write(tmp_path, OPTIONS)
    options = train_options("--config", path)
    assert (options.task, options.scale, options.seed) == ("recall", "smoke", 3)
    assert options.set == {"memory.cells": "8", "training.learning_rate": "1e-3"}
    changed = train_options("copy", "--config", path, "--seed", "4", "--set", "memory.cells=6")
    assert (changed.task, changed.seed, changed.set["memory.cells"]) == ("copy", 4, "6")


def test_the_best_configuration_of_a_sweep_is_trained_again(best):
    path, config = best
    assert train_options("--config", path).config() == config


def test_a_search_and_a_comparison_take_their_options_from_a_file(tmp_path):
    path = write(tmp_path, f"{OPTIONS}trials: 5\ntime_budget: 2h\nestimators: [gumbel]\n")
    search = search_options(["--config", path])
    assert (search.task, search.trials, search.time_budget) == ("recall", 5, 7200)
    assert search.estimators == ("gumbel",)
    assert search.set == {"memory.cells": "8", "training.learning_rate": "1e-3"}
    assert search_options(["--config", path, "--trials", "9"]).trials == 9
    path = write(tmp_path, "task: copy\nseeds: 2\ndry_run: true\n")
    comparison = comparison_options(["--config", path])
    assert (comparison.task, comparison.seeds, comparison.dry_run) == ("copy", 2, True)


def test_a_configuration_is_searched_around_or_compared(best):
    path, _ = best
    search = search_options(["--config", path])
    assert (search.task, search.scale) == ("copy", "smoke")
    assert (search.models, search.estimators) == (("tardis",), ("reinforce",))
    (candidate,) = comparison_options(["--config", path]).candidate
    assert candidate.startswith("tardis:reinforce,label=best_config,")
    assert "memory.cells=4" in candidate


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "must be a file with options by name"),
        ("task: {", "must be a YAML or JSON file that can be read"),
        ("task: copy\ncolour: red", "unrecognized arguments: --colour red"),
        ("task: copy\nset: 3", "the settings of a --config file are KEY: VALUE, not 3"),
        ("task: copi", "unknown task 'copi'"),
        ("task: copy\nconfig: other.yaml", "config in .* must be the configuration of a run"),
        ("config: {task: copy}", "config in .* must be the configuration of a run"),
    ],
)
def test_a_file_that_is_wrong_is_one_sentence(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        train_options("--config", write(tmp_path, text))
    with pytest.raises(UserError, match=r"and nowhere\.yaml is not one"):
        search_options(["--config", "nowhere.yaml"])

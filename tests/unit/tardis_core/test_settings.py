"""Every setting says what it means."""

from tardis_core.config import make_config
from tardis_core.estimators.base import ESTIMATORS
from tardis_core.models.base import MODELS
from tardis_core.settings import help_of
from tardis_core.tasks.base import TASKS
from tardis_core.training.schedule import TrainingConfig


def section_classes():
    models = [MODELS.get(name) for name in MODELS.names()]
    yield from (model.Config for model in models)
    yield from (model.Memory for model in models if model.Memory is not None)
    yield from (ESTIMATORS.get(name).Config for name in ESTIMATORS.names())
    yield from (TASKS.get(name).Config for name in TASKS.names())
    yield TrainingConfig


def test_every_setting_of_every_section_has_a_sentence():
    for section in section_classes():
        for name, text in help_of(section).items():
            assert len(text.split()) >= 3 or name in ("updates", "batch"), (section, name)
            assert not text.endswith("."), (section, name)  # they stand in a table


def test_the_sentences_of_a_run_have_the_names_of_its_settings():
    config = make_config("copy", estimator="reinforce")
    assert list(config.help()) == list(config.settings())
    assert config.help()["estimator.gamma"] == "discount of future rewards per step"

"""Names to classes, filled by the modules of a folder."""

import sys

import pytest

from tardis_core.errors import UserError
from tardis_core.estimators.base import ESTIMATORS, Estimator
from tardis_core.models.base import MODELS, SequenceModel
from tardis_core.registry import ESTIMATOR_NAMES, MODEL_NAMES, TASK_NAMES, Registry
from tardis_core.tasks.base import TASKS, Task

KINDS = [(TASKS, Task), (MODELS, SequenceModel), (ESTIMATORS, Estimator)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A package `zoo` whose registry is in `zoo.base`, with two modules that enter something."""
    zoo = tmp_path / "zoo"
    zoo.mkdir()
    (zoo / "__init__.py").write_text("")
    (zoo / "base.py").write_text(
        "from tardis_core.registry import Registry\nANIMALS = Registry('animal', 'zoo')\n"
    )
    for name in ("zebra", "ape"):
        (zoo / f"{name}.py").write_text(
            f"from zoo.base import ANIMALS\n@ANIMALS.register('{name}')\nclass It: ...\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    yield zoo
    for module in [name for name in sys.modules if name.split(".")[0] == "zoo"]:
        del sys.modules[module]


def test_a_new_file_registers_itself(folder):
    (folder / "yak.py").write_text(
        "from zoo.base import ANIMALS\n@ANIMALS.register('yak')\nclass Yak: ...\n"
    )
    from zoo.base import ANIMALS

    assert ANIMALS.get("yak").__name__ == "Yak"


def test_names_are_sorted(folder):
    from zoo.base import ANIMALS

    assert ANIMALS.names() == ["ape", "zebra"]


def test_nothing_is_imported_before_a_name_is_asked_for(folder):
    import zoo.base

    assert "zoo.ape" not in sys.modules
    zoo.base.ANIMALS.get("zebra")
    assert "zoo.ape" in sys.modules


def test_an_unknown_name_is_answered_with_the_choices(folder):
    from zoo.base import ANIMALS

    with pytest.raises(UserError, match=r"^unknown animal 'cow'; choose one of: ape, zebra$"):
        ANIMALS.get("cow")


def test_a_broken_file_is_not_passed_over(folder):
    (folder / "broken.py").write_text("import there_is_no_such_module\n")
    from zoo.base import ANIMALS

    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="there_is_no_such_module"):
            ANIMALS.names()


def test_a_name_is_registered_once():
    registry = Registry[type]("thing", "tardis_core.estimators")
    registry.register("it")(int)
    with pytest.raises(ValueError, match="thing 'it' is registered twice"):
        registry.register("it")(float)


def test_the_decorator_gives_the_class_back():
    assert Registry[type]("thing", "tardis_core.estimators").register("it")(int) is int


@pytest.mark.parametrize(("registry", "base"), KINDS)
def test_all_that_is_registered_has_the_interface(registry, base):
    assert registry.names()
    assert all(issubclass(registry.get(name), base) for name in registry.names())


@pytest.mark.parametrize(("registry", "base"), KINDS)
def test_an_unknown_task_model_or_estimator_lists_all(registry, base):
    with pytest.raises(UserError) as error:
        registry.get("nope")
    assert str(error.value).endswith(", ".join(registry.names()))


@pytest.mark.parametrize(
    ("names", "registry"),
    [(TASK_NAMES, TASKS), (MODEL_NAMES, MODELS), (ESTIMATOR_NAMES, ESTIMATORS)],
)
def test_names_are_known_without_importing_what_they_name(names, registry):
    assert names._replace(module="").all() == registry.names() == names.all()
    with pytest.raises(UserError, match=f"unknown {names.kind} 'nobody'; choose one of: "):
        names._replace(module="").check("nobody")

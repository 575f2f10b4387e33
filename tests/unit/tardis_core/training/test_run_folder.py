"""The files of a run: which there are, when they are written, and what is refused."""

import json
from types import SimpleNamespace

import pytest
import torch

from tardis_core.build import build_network, build_task
from tardis_core.data.dataset import Provenance
from tardis_core.errors import UserError
from tardis_core.training import checkpoint
from tardis_core.training.run_folder import (
    RunFolder,
    as_csv,
    check_data,
    load_checkpoint,
    load_network,
)
from tests.support.tiny import tiny


class FakeTrainer:
    """What a folder asks of a trainer."""

    def __init__(self, update=4, best=0.5, best_update=4):
        self.update, self.best, self.best_update = update, best, best_update
        self.history = [{"update": 4, "loss": 1.5}]
        self.config, self.backend, self.started_from = tiny(), "native", None
        self.provenance = Provenance("copy", True, True, "abc", "made")

    def model_state(self):
        return {"update": self.update}

    def state(self):
        return {"update": self.update, "history": self.history}


def test_a_new_folder_is_made_with_all_above_it(tmp_path):
    folder = RunFolder.create(tmp_path / "runs" / "one")
    assert (tmp_path / "runs" / "one" / "config.json").exists()
    assert folder.checkpoint == tmp_path / "runs" / "one" / "checkpoint.pt"
    RunFolder.create(tmp_path / "runs" / "one")  # one that holds no run may be used


def test_a_folder_with_a_run_and_a_path_that_is_no_folder_are_refused(tmp_path):
    (tmp_path / "checkpoint.pt").touch()
    with pytest.raises(UserError, match="already holds a run; resume it with --resume"):
        RunFolder.create(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"--out must be a folder that can be written, not .*file"):
        RunFolder.create(tmp_path / "file")


@pytest.mark.parametrize(
    ("best", "best_update", "written"), [(0.5, 4, True), (0.5, 2, False), (None, 4, False)]
)
def test_the_best_weights_are_written_when_they_are_the_present_ones(
    tmp_path, best, best_update, written
):
    folder = RunFolder.create(tmp_path / "run")
    folder.save(FakeTrainer(best=best, best_update=best_update))
    assert folder.best.exists() == written
    if written:
        values = checkpoint.load(folder.best)
        assert (values["metric"], values["update"]) == (0.5, 4)
    assert checkpoint.load(folder.checkpoint)["update"] == 4
    assert (folder.path / "metrics.csv").read_text() == "update,loss\n4,1.5\n"


def test_a_folder_is_adjusted_to_its_checkpoint(tmp_path):
    (tmp_path / ".checkpoint.pt.x.part").touch()
    (tmp_path / "metrics.csv").write_text("update,loss\n4,1.5\n8,1.0\n")
    assert RunFolder.reopen(tmp_path, FakeTrainer()).path == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.csv"]
    assert (tmp_path / "metrics.csv").read_text() == "update,loss\n4,1.5\n"


def test_a_run_is_described_before_it_starts(tmp_path):
    trainer, folder = FakeTrainer(), RunFolder.create(tmp_path)
    folder.describe(trainer)
    text = (tmp_path / "config.json").read_text()
    about = json.loads(text)
    assert about["config"] == trainer.config.to_dict()
    assert (about["data"]["name"], about["backend"]) == ("copy", "native")
    assert text.startswith('{\n  "config"')
    assert text.endswith("}\n")
    assert folder.threads == torch.get_num_threads()


@pytest.mark.parametrize(
    ("text", "threads"),
    [
        ('{"threads": 1}', 1),
        ('{"threads": 0}', None),
        ('{"threads": "two"}', None),
        ("{}", None),
        ("[]", None),
        ("not json", None),
        (None, None),
    ],
)
def test_the_number_of_threads_is_known_or_not(tmp_path, text, threads):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    assert RunFolder(tmp_path).threads == threads


def test_the_result_is_written_for_people(tmp_path):
    folder = RunFolder(tmp_path)
    folder.write_result({"test": 0.25})
    assert folder.result == tmp_path / "result.json"
    assert folder.result.read_text() == '{\n  "test": 0.25\n}\n'


def test_the_result_of_a_shorter_run_is_kept(tmp_path):
    folder = RunFolder.create(tmp_path)
    folder.lengthen(FakeTrainer(), updates=4)  # it has no result yet
    assert not (tmp_path / "result-4.json").exists()
    folder.write_result({"test": 0.25})
    folder.lengthen(FakeTrainer(update=8), updates=4)
    assert json.loads((tmp_path / "result-4.json").read_text()) == {"test": 0.25}
    assert not folder.result.exists()
    assert checkpoint.load(folder.checkpoint)["update"] == 8
    assert json.loads((tmp_path / "config.json").read_text())["backend"] == "native"


def test_columns_stand_in_the_order_in_which_they_first_occur():
    assert as_csv([{"a": 1, "b": 2}, {"c": 3, "a": 4}]) == "a,b,c\n1,2,\n4,,3\n"


@pytest.fixture
def trained(tmp_path):
    """The checkpoint of a network."""
    config = tiny()
    signature = build_task(config, None).signature
    network = build_network(config, signature)
    with torch.no_grad():
        network.head.W_o.bias.fill_(7.0)
    values = {"config": config.to_dict(), "signature": vars(signature)}
    checkpoint.save(tmp_path / "checkpoint.pt", {**values, "network": network.state_dict()})
    return tmp_path


def test_a_checkpoint_is_found_in_its_folder_or_by_its_name(trained):
    for path in (trained, trained / "checkpoint.pt"):
        values, config = load_checkpoint(path)
        assert config == tiny()
        network = load_network(values, config, path)
        assert network.head.W_o.bias.unique().tolist() == [7.0]


def test_a_checkpoint_of_another_version_and_one_without_weights_are_refused(trained):
    checkpoint.save(trained / "old.pt", {"update": 3})
    with pytest.raises(UserError, match=r"old\.pt does not fit this version of the program"):
        load_checkpoint(trained / "old.pt")
    values, config = load_checkpoint(trained)
    values["network"].pop("head.W_o.bias")
    with pytest.raises(UserError, match="holds no weights of its own configuration"):
        load_network(values, config, trained)


def test_a_run_continues_on_the_data_it_was_trained_on(tmp_path):
    recorded = {"name": "ptb", "sha256": "a" * 64}
    check_data(tmp_path, recorded, SimpleNamespace(name="ptb", sha256="a" * 64))
    for name, checksum in (("ptb", "b" * 64), ("ptb-standin", "a" * 64)):
        with pytest.raises(UserError, match=rf"was trained on ptb \(a+\), not on {name}"):
            check_data(tmp_path, recorded, SimpleNamespace(name=name, sha256=checksum))

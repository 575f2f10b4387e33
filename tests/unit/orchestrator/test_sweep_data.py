"""A sweep never mixes data: it is resumed, extended and confirmed on what it began with."""

import json
from dataclasses import replace

import pytest

from orchestrator.compare_command import main as compare
from orchestrator.doctor import compare_data
from orchestrator.execution import driver
from orchestrator.execution.driver import run_sweep
from orchestrator.planning import confirmation, sweep_data
from orchestrator.planning.options import SearchOptions
from orchestrator.planning.plan import PLAN_FILE, load_plan
from orchestrator.planning.planner import plan_from
from orchestrator.sweep_command import main as sweep
from orchestrator.sweep_session import as_begun
from orchestrator.tracking.data_tags import DataRecord, recorded_data
from orchestrator.tracking.event_log import EventLog
from orchestrator.tracking.events import SweepEnded, SweepStarted
from tardis_core.data import ptb
from tests.support.sweep_logs import comparison_plan, make_plan

SPLITS = ("train", "valid", "test")
PTB = {"task": "ptb", "metric": "bpc"}


class Started(Exception):
    """The sweep would have begun to write."""


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """Two folders with data, and a working folder in which no sweep gets beyond its checks."""

    def load(directory=None, source="auto"):
        folder = ptb.files.data_dir(directory)
        if folder is None or source == "standin":
            return ptb.corpus("ptb-standin", False, "made up", {split: ["abc"] for split in SPLITS})
        lines = (folder / "lines.txt").read_text().splitlines()
        return ptb.corpus("ptb", True, f"the files in {folder}", dict.fromkeys(SPLITS, lines))

    def stop(*arguments):
        raise Started

    monkeypatch.setattr(ptb, "load", load)
    monkeypatch.setattr(driver, "prepare_store", lambda *_: "1")
    monkeypatch.setattr(driver, "_opened", stop)
    monkeypatch.delenv("TARDIS_DATA", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for name in ("real", "other", "work"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lines.txt").write_text(f"a line of {name}")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def start(plan):
    """Save the plan as its first start would."""
    plan = sweep_data.load(plan).plan
    plan.folder.mkdir(parents=True, exist_ok=True)
    plan.save()
    return plan


@pytest.fixture
def search(places, monkeypatch):
    """A search that began with TARDIS_DATA, which is no longer set."""
    monkeypatch.setenv("TARDIS_DATA", "../real")
    begun = start(plan_from(SearchOptions(task="ptb", scale="smoke", name="s", confirm_seeds=2)))
    monkeypatch.delenv("TARDIS_DATA")
    return begun


def test_a_plan_keeps_the_folder_and_the_checksum_of_its_data(search, places):
    provenance = ptb.load(places / "real").provenance
    assert load_plan("s") == search
    assert search.data_dir.endswith("/real")
    assert (search.data_name, search.data_sha256) == ("ptb", provenance.sha256)


def test_generated_data_needs_no_folder(monkeypatch, places):
    monkeypatch.setenv("TARDIS_DATA", str(places / "real"))
    plan = sweep_data.load(make_plan()).plan
    assert (plan.data_dir, plan.data_name) == (None, "copy")


@pytest.mark.parametrize("arguments", [["--resume", "s"], ["--extend", "s", "--trials", "+2"]])
def test_a_sweep_goes_on_with_its_own_data_wherever_the_shell_points(
    search, monkeypatch, places, arguments
):
    with pytest.raises(Started):
        sweep(arguments)
    monkeypatch.setenv("TARDIS_DATA", str(places / "other"))
    with pytest.raises(Started):
        sweep(arguments)


def files_below(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("arguments", [["--resume", "s"], ["--extend", "s", "--trials", "+2"]])
def test_other_data_is_refused_before_anything_is_written(search, places, capsys, arguments):
    before = files_below(places)
    assert sweep([*arguments, "--data-dir", "../other"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: the trials of s were trained on ptb (")
    assert "), not on ptb (" in error
    assert len(error.splitlines()) == 1
    assert files_below(places) == before


def test_files_that_were_replaced_in_their_folder_are_refused(search, places, capsys):
    (places / "real" / "lines.txt").write_text("another line")
    assert sweep(["--resume", "s"]) == 2
    assert "give that data with --data-dir" in capsys.readouterr().err


def test_data_that_has_moved_is_found_with_data_dir(search, places):
    (places / "real").rename(places / "moved")
    assert sweep(["--resume", "s"]) == 2
    with pytest.raises(Started):
        sweep(["--resume", "s", "--data-dir", "../moved"])


def test_a_comparison_is_as_strict(places, capsys):
    start(comparison_plan(**PTB, data_dir="../real"))
    assert compare(["--resume", "c", "--data-dir", "../other"]) == 2
    assert "the trials of c were trained on ptb (" in capsys.readouterr().err


def test_a_sweep_on_a_stand_in_stays_there_when_real_data_appears(places, monkeypatch):
    plan = start(make_plan(**PTB))
    assert (plan.data_name, plan.data) == ("ptb-standin", "standin")
    monkeypatch.setenv("TARDIS_DATA", str(places / "real"))
    assert sweep_data.load(load_plan("s")).source.name == "ptb-standin"


def test_a_confirmation_is_trained_on_the_data_of_its_search(search):
    again = confirmation.new(as_begun(replace(search, data_name="")), {0: {"model": "lstm"}})
    assert (again.data_name, again.data_sha256) == (search.data_name, search.data_sha256)
    assert again.data_dir == search.data_dir


def older(plan, *sources):
    """Save the plan as a version that named no data, with a start on each of these."""
    log = EventLog(plan.folder)
    for each in sources:
        record = DataRecord(each.name, each.sha256, each.real)
        log.append(SweepStarted(plan.name, record.tags), SweepEnded("KILLED"))
    log.close()
    plan.save()
    path = plan.folder / PLAN_FILE
    values = json.loads(path.read_text())
    del values["data_name"], values["data_sha256"]
    path.write_text(json.dumps(values))
    return load_plan(plan.name)


def test_an_older_sweep_has_its_data_in_its_event_log(places, capsys):
    plan = older(make_plan(**PTB, data_dir="../real"), ptb.load("../real").provenance)
    with pytest.raises(Started):
        run_sweep(plan, None, lambda *_: [], lambda *_: None)
    assert sweep(["--resume", "s", "--data-dir", "../other"]) == 2
    assert "the trials of s were trained on ptb (" in capsys.readouterr().err


def test_an_older_sweep_without_any_record_goes_on(places):
    plan = older(make_plan(**PTB))
    assert plan.data_name == ""
    with pytest.raises(Started):
        run_sweep(plan, None, lambda *_: [], lambda *_: None)


def test_the_doctor_notices_data_that_an_older_version_mixed(places):
    real, standin = ptb.load("../real").provenance, ptb.load().provenance
    plan = older(make_plan(**PTB), real, standin, real)
    (problem,) = compare_data(plan, recorded_data(plan.folder))
    assert problem.startswith("the trials of s were measured on different data: ptb (")
    assert ", ptb-standin (" in problem
    named = sweep_data.named_after(plan, real.name, real.sha256, real.real)
    assert compare_data(named, recorded_data(plan.folder)[:1]) == []

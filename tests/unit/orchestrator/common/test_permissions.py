"""What must stay closed: files of others, names that lead elsewhere, secrets, pickles."""

import json
import logging
import os
import pickle
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import ui
from orchestrator.common import permissions
from orchestrator.common.library_logs import redirect_library_logs
from orchestrator.common.permissions import check_folder
from orchestrator.common.redaction import masked
from orchestrator.execution import cluster
from orchestrator.execution.driver import _params
from orchestrator.planning import dry_run
from orchestrator.planning.options import SearchOptions
from orchestrator.planning.plan import SweepPlan, load_plan
from orchestrator.planning.planner import plan_from
from orchestrator.sweep_command import main
from orchestrator.tracking.mlflow_store import existing_store
from tardis_core.errors import UserError
from tardis_core.training import checkpoint

SECRET = "hunter2"


@pytest.fixture
def plan(tmp_path, monkeypatch) -> SweepPlan:
    monkeypatch.chdir(tmp_path)
    uri = f"postgresql://me:{SECRET}@nowhere/db"
    storage = f"s3://key:{SECRET}@bucket/ray"
    options = SearchOptions(
        task="copy", scale="smoke", name="one", tracking_uri=uri, storage=storage
    )
    plan = plan_from(options)
    plan.folder.mkdir(parents=True)
    plan.save()
    return plan


class Bomb:
    """Runs when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def test_a_pickle_as_a_checkpoint_is_refused_and_not_run(tmp_path):
    (tmp_path / "best.pt").write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    with pytest.raises(UserError, match="not a checkpoint of this program or is damaged"):
        checkpoint.load(tmp_path / "best.pt")
    assert not (tmp_path / "exploded").exists()


def test_the_bomb_is_one(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "exploded")))
    assert (tmp_path / "exploded").exists()


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
def test_a_sweep_that_others_can_write_is_not_resumed(plan, capsys, mode):
    (plan.folder / "ray").mkdir()
    (plan.folder / "ray" / "tuner.pkl").write_bytes(pickle.dumps(Bomb(Path("exploded"))))
    (plan.folder / "ray").chmod(mode)
    assert main(["--resume", "one"]) == 2
    text = capsys.readouterr().err
    assert "sweeps/one/ray can be written by everyone" in text
    assert text.count("\n") == 1
    assert not Path("exploded").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["", "sweep.json", "study.log"])
def test_nor_one_with_files_of_somebody_else(plan, name):
    (plan.folder / "study.log").touch()
    os.chown(plan.folder / name, 65534, 65534)
    with pytest.raises(UserError, match="belongs to nobody, and a sweep is resumed only from"):
        check_folder(plan.folder)


def test_nor_one_on_a_path_that_others_can_redirect(plan, tmp_path):
    check_folder(plan.folder)
    tmp_path.chmod(0o777)
    with pytest.raises(UserError, match="can be written by everyone"):
        check_folder(plan.folder)
    tmp_path.chmod(0o1777)  # as /tmp: nobody can replace what is ours
    check_folder(plan.folder)


def test_a_file_that_disappears_during_the_check_is_ignored(plan, monkeypatch):
    """As in the folder of a sweep that runs."""
    monkeypatch.setattr(permissions, "_below", lambda folder: [folder / "gone"])
    check_folder(plan.folder)


@pytest.mark.parametrize("key", ["name", "sweep_id"])
def test_a_plan_cannot_name_a_path(plan, key):
    path = plan.folder / "sweep.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: "../../x"}))
    with pytest.raises(UserError, match="letters, digits, dots, dashes and underscores"):
        load_plan("one")


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a/b", "..", ".hidden", "a\0b", "a\nb", ""])
def test_names_that_lead_elsewhere_are_refused(name):
    with pytest.raises(UserError, match="the name of a sweep has letters"):
        load_plan(name)


def test_secrets_are_in_nothing_that_others_read(plan):
    assert plan.tracking_uri.count(SECRET) == plan.ray_storage.count(SECRET) == 1
    assert SECRET not in repr(_params(plan))
    assert SECRET not in repr(plan.without_secrets())
    assert SECRET.encode() not in pickle.dumps(plan.without_secrets())
    assert stat.S_IMODE((plan.folder / "sweep.json").stat().st_mode) == 0o600


def test_nobody_else_can_read_the_plan_at_any_moment(plan, monkeypatch):
    modes, replace_file = [], os.replace

    def look(source, target):
        modes.append(stat.S_IMODE(os.stat(source).st_mode))
        replace_file(source, target)

    monkeypatch.setattr(os, "replace", look)
    plan.save()
    assert modes == [0o600]


def test_the_ui_does_not_show_the_password_of_its_store_to_other_users(plan, monkeypatch):
    call = []
    monkeypatch.setattr(os, "execve", lambda *arguments: call.extend(arguments))
    monkeypatch.setattr(ui, "sweep_pages", lambda plan: ui.Pages())
    ui.main(["one"])
    _, words, environment = call
    assert words[1:4] == ["-m", "mlflow", "server"]
    assert SECRET not in " ".join(words)
    assert environment["MLFLOW_BACKEND_STORE_URI"] == plan.tracking_uri


def test_the_plan_is_read_back_with_its_secrets(plan):
    assert load_plan("one") == plan
    assert replace(plan, tracking_uri="", storage="") == replace(
        plan.without_secrets(), tracking_uri="", storage=""
    )


def test_secrets_are_not_printed(plan, capsys, monkeypatch):
    monkeypatch.setattr(dry_run, "MEASURE_SECONDS", 0.0)
    assert main(["copy", "--smoke", "--dry-run", "--storage", plan.storage]) == 0
    text = capsys.readouterr().out
    assert "s3://key:***@bucket" in text
    assert SECRET not in text


def test_secrets_are_not_in_the_log_of_the_libraries(tmp_path):
    redirect_library_logs(tmp_path / "ray.log")
    logging.getLogger("ray.tune").warning("no http://me:%s@there?token=%s", SECRET, SECRET)
    written = (tmp_path / "ray.log").read_text()
    assert "http://me:***@there?token=***" in written
    assert SECRET not in written


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://a:b@c/d and http://e:f@g", "postgresql://a:***@c/d and http://e:***@g"),
        ("s3://b?secret_key=x&region=y", "s3://b?secret_key=***&region=y"),
        ("http://host:5000/a@b", "http://host:5000/a@b"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("postgresql://a:b/c@d/e", "postgresql://a:***@d/e"),
        ("postgresql://a:b@c@d/e", "postgresql://a:***@d/e"),
        ("s3://b?session_token=x&region=y", "s3://b?session_token=***&region=y"),
    ],
)
def test_masking(text, expected):
    assert masked(text) == expected


def test_the_token_of_this_machine_is_for_its_owner_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    cluster.ensure_private_token()
    path = tmp_path / ".ray" / "auth_token"
    token = path.read_text()
    assert len(token) == 64
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)  # as Ray writes it
    cluster.ensure_private_token()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == token


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nothing", "no.such.host.invalid:6379"])
def test_a_cluster_that_is_not_there_is_reported_at_once(address):
    with pytest.raises(UserError, match="must be HOST:PORT of a Ray cluster that is running"):
        cluster.check_reachable(address)


def test_mlflow_loads_no_pickles(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "")
    monkeypatch.delenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION")
    with pytest.raises(UserError):
        existing_store("http://127.0.0.1:1")
    assert os.environ["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] == "false"

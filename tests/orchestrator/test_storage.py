"""What is done with the folders of checkpoints before a sweep is restored."""

from sweep_logs import make_plan

from orchestrator.storage import restore_places


def test_deleted_checkpoints_get_their_places_back_empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = make_plan()
    trials = plan.folder / "ray" / "trials"
    kept = trials / "trial-0-x" / "checkpoint_000003"
    kept.mkdir(parents=True)
    (kept / "checkpoint.pt").write_bytes(b"weights")
    (trials / "trial-1-y").mkdir()  # has not saved yet
    (trials / "tuner.pkl").touch()
    restore_places(plan)
    names = [f"checkpoint_00000{number}" for number in range(4)]
    assert sorted(each.name for each in (trials / "trial-0-x").iterdir()) == names
    assert (kept / "checkpoint.pt").read_bytes() == b"weights"
    assert not list((trials / "trial-0-x" / names[0]).iterdir())
    assert not list((trials / "trial-1-y").iterdir())


def test_a_sweep_that_has_not_begun_has_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    restore_places(make_plan())

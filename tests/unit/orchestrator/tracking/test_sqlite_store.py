"""The SQLite file of a store: half-made ones are replaced, all others are left alone."""

import shutil
import sqlite3

import pytest

from orchestrator.common.defaults import default_tracking_uri
from orchestrator.tracking import sqlite_store
from orchestrator.tracking.mlflow_store import open_store
from orchestrator.tracking.sqlite_store import database_file
from tardis_core.errors import UserError
from tests.support.mlflow_stores import create_half, fresh_sqlite


@pytest.fixture
def template(tmp_path, tmp_path_factory, monkeypatch):
    """A store to be copied in place of one that MLflow would take seconds to create."""
    template = database_file(fresh_sqlite(tmp_path / "template", tmp_path_factory))

    def initialize(engine):
        shutil.copy(template, engine.url.database)

    monkeypatch.setattr(sqlite_store.mlflow_tables, "_initialize_tables", initialize)
    return template


def test_a_half_made_store_is_replaced(tmp_path, template):
    database = tmp_path / "mlflow.db"
    create_half(database)
    (tmp_path / "mlflow.db.new").write_text("half of a second attempt")
    open_store(f"sqlite:///{database}", "e")
    with sqlite3.connect(database) as connection:
        assert ("e",) in connection.execute("SELECT name FROM experiments").fetchall()
    assert not (tmp_path / "mlflow.db.new").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE alembic_version SET version_num = '451aebb31d03'",  # an old one that has runs
        "SELECT 1",
    ],
)
def test_a_store_that_has_runs_is_never_replaced(tmp_path, template, statement):
    with sqlite3.connect(template) as connection:
        connection.execute("INSERT INTO runs (run_uuid) VALUES ('r')")
        connection.execute(statement)
    assert not sqlite_store._is_half_made(template)


def test_a_file_that_is_no_store_is_left_alone(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("not a database" * 100)
    with pytest.raises(Exception, match="database"):
        open_store(f"sqlite:///{other}", "e")
    assert other.read_text().startswith("not a database")


def test_a_folder_is_no_store(tmp_path):
    with pytest.raises(UserError, match="must be a file"):
        open_store(f"sqlite:///{tmp_path}", "e")


@pytest.mark.parametrize("name", ["with space", "größe", "100%25", "a#b", "why?"])
def test_the_default_store_is_in_the_working_folder_whatever_its_name(
    tmp_path, template, monkeypatch, name
):
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    client, _ = open_store(default_tracking_uri(), "e")
    assert client.get_experiment_by_name("e").artifact_location.endswith(f"{name}/artifacts")
    with sqlite3.connect(tmp_path / name / "mlflow.db") as connection:
        assert ("e",) in connection.execute("SELECT name FROM experiments").fetchall()

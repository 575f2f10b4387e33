"""What a store and a folder hold after a round, by SQL and files alone: no code of the program.

The same questions are asked of all stacks: which trials are lost, which are recorded twice, which
are left running.
"""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

RUNS = """
    SELECT r.run_uuid, r.status, t.value FROM runs r
    JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = ?
    WHERE r.lifecycle_stage = 'active'
"""
OF_SWEEP = " AND r.run_uuid IN (SELECT run_uuid FROM tags WHERE key = ? AND value = ?)"
STEPS = "SELECT step, count(*) FROM metrics WHERE run_uuid = ? AND key = ? GROUP BY step"


class Findings(NamedTuple):
    """What is wrong after a round."""

    lost: list[str]
    doubled: list[str]
    running: list[str]

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many of each kind."""
        return len(self.lost), len(self.doubled), len(self.running)


def examine(database: Path, trials: int, metric: str, tag: str, where: str = "") -> Findings:
    """Compare the runs of a store with the trials that were asked for.

    Args:
        trials: how many trials the search has.
        metric: one value per step is expected, and steps without a gap.
        tag: the tag that tells which trial a run belongs to.
        where: another tag, as key=value, that the runs must have.
    """
    with closing(sqlite3.connect(database)) as connection:
        query, more = (RUNS + OF_SWEEP, where.split("=")) if where else (RUNS, [])
        runs = connection.execute(query, (tag, *more)).fetchall()
        steps = {run: dict(connection.execute(STEPS, (run, metric))) for run, _, _ in runs}
    owners = Counter(trial for _, _, trial in runs)
    lost = [f"{trials - len(owners)} of {trials} trials"] if len(owners) < trials else []
    doubled = [f"trial {trial}: {count} runs" for trial, count in owners.items() if count > 1]
    running = []
    for run, status, trial in runs:
        counts = steps[run]
        doubled += [f"trial {trial}: step {step}" for step, n in counts.items() if n > 1]
        lost += [f"trial {trial}: step {step}" for step in missing(sorted(counts))]
        if status in ("RUNNING", "SCHEDULED"):
            running.append(f"trial {trial}")
    return Findings(lost, doubled, running)


def missing(steps: list[int]) -> list[int]:
    """The steps that are left out: they come at equal distances."""
    if not steps:
        return []
    distance = min([later - earlier for earlier, later in pairwise(steps)] or [steps[0]]) or 1
    return sorted(set(range(distance, steps[-1] + 1, distance)) - set(steps))


def ended_in_study(journal: Path) -> int:
    """How many trials of an Optuna journal have ended: their last state is 1, 2 or 3.

    Logs of kind 4 create a trial, in any state; logs of kind 6 change its state.
    """
    states: dict[int, int] = {}
    for line in journal.read_text().splitlines() if journal.exists() else ():
        log = json.loads(line)
        if log["op_code"] == 4:
            states[len(states)] = log.get("state", 0)
        elif log["op_code"] == 6:
            states[log["trial_id"]] = log["state"]
    return sum(state in (1, 2, 3) for state in states.values())


class Answers(NamedTuple):
    """What became of the requests of `orchestrator.control`."""

    lost: list[str]
    doubled: list[str]
    enqueued: int  # requests for a trial that were obeyed


def examine_requests(folder: Path) -> Answers:
    """Compare the requests to a sweep with the answers in its event log: one for each."""
    asked = [each["id"] for each in _lines(folder / "control.jsonl")]
    answers = [each for each in _lines(folder / "tracking.jsonl") if each["event"] == "Controlled"]
    counts = Counter(each["request"] for each in answers)
    lost = [f"request {each} has no answer" for each in asked if not counts[each]]
    doubled = [f"request {each}: {counts[each]} answers" for each in asked if counts[each] > 1]
    obeyed = [each for each in answers if each["action"] == "enqueue" and not each["refused"]]
    return Answers(lost, doubled, len(obeyed))


def _lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file with one per line."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def runs_with_parameter(database: Path, key: str, value: str) -> int:
    """How many runs of a store have a parameter with this value."""
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT count(*) FROM params WHERE key = ? AND value = ?"
        (count,) = connection.execute(query, (key, value)).fetchone()
    return int(count)


def running_in_rdb(database: Path) -> list[str]:
    """The trials that Optuna's relational storage has as running."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT number FROM trials WHERE state = 'RUNNING'").fetchall()
    return [f"trial {number} of the study" for (number,) in rows]

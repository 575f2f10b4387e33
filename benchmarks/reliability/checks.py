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
from typing import NamedTuple

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
    """How many trials of an Optuna journal have ended: state 1, 2 or 3 of a log of kind 6."""
    ended = set()
    for line in journal.read_text().splitlines() if journal.exists() else ():
        log = json.loads(line)
        if log["op_code"] == 6 and log["state"] in (1, 2, 3):
            ended.add(log["trial_id"])
    return len(ended)


def running_in_rdb(database: Path) -> list[str]:
    """The trials that Optuna's relational storage has as running."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT number FROM trials WHERE state = 'RUNNING'").fetchall()
    return [f"trial {number} of the study" for (number,) in rows]

"""Kill a part of a sweep at a random moment, resume it, and check what is left.

    python -m benchmarks.reliability.kill_rounds --part driver --rounds 10 --out rounds
    python -m benchmarks.reliability.kill_rounds --stack ray --part driver --rounds 10 --out rounds
    python -m benchmarks.reliability.kill_rounds --out rounds --table

Each round runs in a folder of its own: start, kill one part at a random moment of its life, wait,
resume by the documented command until it ends, and look at the databases and files, by SQL alone.
Rounds take turns at the lives below: a search with its confirmation, one that is extended by
trials, one that promotes and is controlled and trained longer, and a comparison. Rounds are kept
in `rounds.jsonl` below --out, and a round that is there is not run again.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.reliability.checks import (
    ended_in_study,
    examine,
    examine_requests,
    running_in_rdb,
    runs_with_parameter,
)
from tests.support.real_sweeps import TINY, tiny_sweep
from tests.support.servers import Server
from tests.support.victims import descendants, victims

PARTS = ("driver", "group", "worker", "delivery", "raylet", "gcs", "agent", "server")
STACKS = ("ours", "ray", "optuna")
# The parts that a stack has.
PARTS_OF = {
    "ours": PARTS,
    "ray": ("driver", "group", "worker", "raylet", "gcs", "agent"),
    "optuna": ("driver", "group"),
}
TRIALS, MORE, SEEDS = 6, 2, 2
LIVES = ("confirmation", "extension", "promotion", "comparison")
CANDIDATES = ("lstm", "tardis:gumbel")
# A value that no sampler draws: the trial that somebody asks for while the sweep runs.
ENQUEUED = {"training.learning_rate": "0.0023456"}
HANG_SECONDS = 600  # nothing that is alive takes longer, even on a busy machine
ATTEMPTS = 3  # to kill something: a life may end before its moment
STARTS = 4  # at most, by hand: the first, and resumes


@dataclass(frozen=True)
class Round:
    """Result of one round."""

    stack: str
    part: str
    number: int
    life: str  # of ours; the stock stacks have one
    moment: str  # when the kill came; empty if it never came
    codes: list[int | None]  # exit codes of all starts; None: it hung
    lost: list[str]
    doubled: list[str]
    running: list[str]
    load: float  # of the machine, averaged over a minute
    seconds: float

    @property
    def wrong(self) -> bool:
        """Whether anything is lost, doubled, left running, or hung."""
        return bool(self.lost or self.doubled or self.running or None in self.codes)


def commands(stack: str, life: str, folder: Path, uri: str) -> list[list[str]]:
    """The commands of a life: each is started again until it ends well."""
    python = [sys.executable, "-m"]
    if stack != "ours":
        module = f"benchmarks.reliability.stock_{stack}"
        return [[*python, module, str(folder), "--trials", str(TRIALS)]]
    sweep, tracking = [*python, "orchestrator.sweep"], ["--tracking-uri", uri] if uri else []
    search = [*sweep, *tiny_sweep("s", TRIALS), *tracking]
    match life:
        case "confirmation":
            few = ["--set", "task.test_sequences=16"]
            return [[*search, "--confirm-seeds", str(SEEDS), *few]]
        case "extension":
            return [search, [*sweep, "--extend", "s", "--trials", f"+{MORE}"]]
        case "promotion":
            longer = [*sweep, "--extend", "s", "--updates", str(2 * TINY["training.updates"])]
            return [[*search, "--scheduler", "promote"], longer]
        case _:
            words = [word for each in CANDIDATES for word in ("--candidate", each)]
            words += [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
            words += ["--smoke", "--name", "s", "--seeds", str(TRIALS // len(CANDIDATES))]
            return [[*python, "orchestrator.compare", "copy", *words, *tracking]]


def again(command: list[str], place: int, folder: Path) -> list[str]:
    """The command that continues after a kill: the same again if it had not begun.

    Ours has begun if the plan counts its extension; the stock stacks always repeat the command.
    """
    plan = folder / "sweeps" / "s" / "sweep.json"
    if not command[2].startswith("orchestrator.") or not plan.exists():
        return command
    begun = json.loads(plan.read_text()).get("part", 0) == place
    return [*command[:3], "--resume", "s"] if begun else command


class Life:
    """One start after the other in a folder, with one kill among them."""

    def __init__(self, folder: Path, part: str, rng: random.Random) -> None:
        self.folder, self.part, self.rng = folder, part, rng
        self.codes: list[int | None] = []
        self.moment = ""  # of the kill; empty if it had ended before

    def run(self, command: list[str], kill_after: float | None) -> bool:
        """Run a command to its end, with a kill after this many seconds; whether it ended well."""
        process = self._start(command)
        if kill_after is not None:
            self._kill(process, kill_after)
        try:
            self.codes.append(process.wait(HANG_SECONDS))
        except subprocess.TimeoutExpired:
            self.codes.append(None)
            self._end(process)
        return self.codes[-1] == 0

    def control(self, *words: str) -> int:
        """Ask the sweep for something, as from another terminal; 0 if it was asked."""
        return self._start([sys.executable, "-m", "orchestrator.control", "s", *words]).wait()

    def _start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        with open(self.folder / "output.txt", "ab") as output:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _kill(self, process: "subprocess.Popen[bytes]", after: float) -> None:
        """Kill the part as soon as it exists after the moment."""
        began = time.monotonic()
        while process.poll() is None:
            time.sleep(0.05)
            if time.monotonic() - began < after:
                continue
            findings = victims(process.pid, self.part)
            if not findings:
                continue  # it does not exist yet
            victim = self.rng.choice(findings)
            self.moment = f"{time.monotonic() - began:.1f} s"
            try:
                (os.killpg if self.part == "group" else os.kill)(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        for each in [*descendants(process.pid)]:
            try:
                os.kill(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.kill()
        process.wait()


@contextmanager
def tracking_server(folder: Path, needed: bool) -> Iterator[Server | None]:
    """A server that a round may kill, only if it does."""
    if not needed:
        yield None
        return
    server = Server(f"sqlite:///{folder}/mlflow.db", folder)
    with server.running():
        yield server


def run_killed(stack: str, part: str, number: int, seed: int, longest: float) -> Round:
    """Run a round; if its life ended before the kill came, again with an earlier moment."""
    for attempt in range(ATTEMPTS):
        result = run_round(stack, part, number, seed + 1000 * attempt, longest / 2**attempt)
        if result.moment or result.wrong:
            break
    return result


def run_round(stack: str, part: str, number: int, seed: int, longest: float) -> Round:
    """Run one life with one kill at a random moment, and look at what is left."""
    began, rng = time.monotonic(), random.Random(f"{seed}, {stack}, {part}, {number}")
    folder = Path(tempfile.mkdtemp(prefix=f"kill-{stack}-{part}-"))
    kind = LIVES[(number + PARTS.index(part)) % len(LIVES)] if stack == "ours" else "search"
    with tracking_server(folder, part == "server") as server:
        life = Life(folder, part, rng)
        every = commands(stack, kind, folder, server.uri if server else "")
        killed = rng.randrange(len(every))
        with requests_from_outside(life, rng) if kind == "promotion" else nullcontext():
            for place, command in enumerate(every):
                after = rng.uniform(1, longest) if place == killed else None
                if server is not None and after is not None:
                    _restart(server, after, life)
                    after = None
                well = life.run(command, after)
                for _ in range(STARTS - 1):
                    if well or life.codes[-1] is None:
                        break
                    well = life.run(again(command, place, folder), None)
    lost, doubled, running = _examine(stack, kind, folder)
    if not well and life.codes[-1] is not None:
        lost = [*lost, f"it cannot be resumed: exit code {life.codes[-1]}"]
    seconds, load = time.monotonic() - began, os.getloadavg()[0]
    result = Round(
        stack, part, number, kind, life.moment, life.codes, lost, doubled, running, load, seconds
    )
    if result.wrong:
        print(f"kept for inspection: {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return result


@contextmanager
def requests_from_outside(life: Life, rng: random.Random) -> Iterator[None]:
    """Enqueue a trial, pause the sweep and resume it, at random moments of its life."""
    over = threading.Event()
    moments = [rng.uniform(8, 20), rng.uniform(0, 10), rng.uniform(1, 5)]
    settings = [f"{key}={value}" for key, value in ENQUEUED.items()]

    def ask() -> None:
        if not over.wait(moments[0]):
            life.control("enqueue", *settings)
        if over.wait(moments[1]) or life.control("pause") != 0:
            return  # the driver was dead at that moment
        while not over.wait(moments[2]) and life.control("resume") != 0:
            continue  # dead now: the next one stays paused until it is asked

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _restart(server: Server, after: float, life: Life) -> None:
    """Kill the tracking server at the moment, and start it again after ten seconds."""

    def restart() -> None:
        time.sleep(after)
        server.kill()
        life.moment = f"{after:.1f} s"
        time.sleep(10)
        server.start()

    threading.Thread(target=restart, daemon=True).start()


def _examine(stack: str, life: str, folder: Path) -> tuple[list[str], list[str], list[str]]:
    """What is lost, doubled or left running; each sweep of ours is looked at alone."""
    database = folder / "mlflow.db"
    if not database.exists():
        return ["the store"], [], []
    if stack == "ray":
        findings = examine(database, TRIALS, "valid", "trial_name")
        return findings.lost, findings.doubled, findings.running
    if stack == "optuna":
        findings = examine(database, TRIALS, "valid", "number")
        left = running_in_rdb(folder / "study.db")
        return findings.lost, findings.doubled, [*findings.running, *left]
    return _examine_ours(life, folder, database)


def _examine_ours(life: str, folder: Path, database: Path) -> tuple[list[str], ...]:
    lost, doubled, running = [], [], []
    plans = [json.loads(p.read_text()) for p in sorted(folder.glob("sweeps/*/sweep.json"))]
    for plan in plans:
        where = f"tardis.sweep_id={plan['sweep_id']}"
        findings = examine(database, plan["trials"], "valid_bce", "tardis.trial", where)
        lost += [f"{plan['name']}: {each}" for each in findings.lost]
        doubled += [f"{plan['name']}: {each}" for each in findings.doubled]
        running += [f"{plan['name']}: {each}" for each in findings.running]
    wanted = TRIALS + (MORE if life == "extension" else 0)
    study = ended_in_study(folder / "sweeps" / "s" / "study.log")
    if life != "comparison" and study != wanted:  # a comparison has no study
        lost.append(f"the study has {study} of {wanted} trials")
    if life == "confirmation" and len(plans) != 2:
        lost.append("the confirmation")
    answers = examine_requests(folder / "sweeps" / "s")
    obeyed = runs_with_parameter(database, *next(iter(ENQUEUED.items())))
    lost += answers.lost + (["the enqueued trial"] if obeyed < answers.enqueued else [])
    doubled += answers.doubled + (["the enqueued trial"] if obeyed > answers.enqueued else [])
    return lost, doubled, running


def load(path: Path) -> list[Round]:
    """The rounds that have been run."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Round(**json.loads(line)) for line in lines]


def table(rounds: list[Round]) -> str:
    """One row per stack and part, as Markdown."""
    lines = ["| stack | part | rounds | lost | doubled | left running | hung | clean |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for stack in STACKS:
        for part in PARTS_OF[stack]:
            own = [
                each
                for each in rounds
                if (each.stack, each.part) == (stack, part) and (each.moment or each.wrong)
            ]
            if own:
                counts = [
                    sum(bool(getattr(each, kind)) for each in own)
                    for kind in ("lost", "doubled", "running")
                ]
                hung = sum(None in each.codes for each in own)
                clean = sum(not each.wrong for each in own)
                cells = [stack, part, len(own), *counts, hung, clean]
                lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> int:
    """Run the rounds that are missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stack", choices=STACKS, default="ours")
    parser.add_argument("--part", choices=[*PARTS, "all"], default="all")
    parser.add_argument("--rounds", type=int, default=10, help="rounds per part")
    parser.add_argument("--out", type=Path, default=Path("rounds"), help="folder of the table")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--longest", type=float, default=25.0, help="latest moment of a kill, in seconds"
    )
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "rounds.jsonl"
    chosen = PARTS_OF[options.stack] if options.part == "all" else (options.part,)
    plan = [] if options.table else [(p, n) for n in range(options.rounds) for p in chosen]
    for part, number in plan:
        if any((r.stack, r.part, r.number) == (options.stack, part, number) for r in load(path)):
            continue
        result = run_killed(options.stack, part, number, options.seed, options.longest)
        with open(path, "a") as file:
            file.write(json.dumps(asdict(result)) + "\n")
        print(json.dumps(asdict(result)), flush=True)
    rounds = load(path)
    print(table(rounds))
    return 1 if any(each.wrong for each in rounds if each.stack == "ours") else 0


if __name__ == "__main__":
    sys.exit(main())

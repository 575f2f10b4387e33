"""Why trials failed: each distinct reason once, with its trials."""

import re
from collections import defaultdict
from collections.abc import Sequence

from orchestrator.results.records import Records
from orchestrator.tracking.states import ERROR_TAG, State

UNKNOWN = "no reason recorded"
_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")


def reasons(records: Records) -> dict[str, list[int]]:
    """The failed trials by reason, the most frequent first.

    Reasons that differ only in numbers, such as the update of a divergence, are one reason.
    """
    trials: dict[str, list[int]] = defaultdict(list)
    first: dict[str, str] = {}
    for number, trial in sorted(records.trials.items()):
        if trial.state is State.FAILED:
            reason = _line(trial.tags.get(ERROR_TAG, ""))
            kind = _NUMBER.sub("#", reason)
            first.setdefault(kind, reason)
            trials[first[kind]].append(number)
    return dict(sorted(trials.items(), key=lambda item: -len(item[1])))


def _line(error: str) -> str:
    """The line of an error that names it: the last of a traceback, otherwise the first."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return (
        (lines[-1] if len(lines) > 1 and "Traceback" in error else lines[0]) if lines else UNKNOWN
    )


def lines(records: Records) -> list[str]:
    """One line per reason for a terminal; none if no trial failed."""
    return [
        f"failed:   {reason} ({_trials(numbers)})" for reason, numbers in reasons(records).items()
    ]


def _trials(numbers: Sequence[int]) -> str:
    """Numbers in their order, such as `trials 0, 2-5`."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number])
    word = "trial" if len(numbers) == 1 else "trials"
    return f"{word} {', '.join('-'.join(map(str, span)) for span in spans)}"

"""Control a running sweep: `python -m orchestrator.control NAME pause`."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tardis_core.cli import Parser, command
from tardis_core.errors import UserError, require

if TYPE_CHECKING:
    from orchestrator.execution.requests import Request

ANSWER_SECONDS = 20.0  # a driver that is still starting answers when its trials run
EXAMPLES = """
actions:
  stop             like Ctrl-C in the terminal of the sweep: nothing is lost, --resume continues it
  pause            stop all trials, start no others; the sweep waits, also after --resume
  resume           continue a paused sweep: its trials resume from their last checkpoints
  stop-trial N     end trial N for good; it counts as pruned
  enqueue KEY=VALUE ...   settings of the next trial; the sampler chooses the others

examples:
  python -m orchestrator.control NAME stop-trial 3
  python -m orchestrator.control NAME enqueue training.learning_rate=0.003 estimator=gumbel
"""
DONE = {
    "stop": "{name} stops; continue with --resume {name}",
    "pause": "{name} is paused; continue with: python -m orchestrator.control {name} resume",
    "resume": "{name} continues",
    "stop-trial": "trial {trial} of {name} is stopped",
    "enqueue": "the settings are those of the next trial of {name}",
}


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(prog="python -m orchestrator.control", description=__doc__, epilog=EXAMPLES)
    parser.add_argument("name", help="name of a running sweep")
    parser.add_argument("action", choices=tuple(DONE), help="what to do; see below")
    parser.add_argument("words", nargs="*", metavar="N or KEY=VALUE", help="see below")
    return parser


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Write the request into the folder of the sweep, and wait for the answer of its driver."""
    options = parser().parse_args(arguments)
    request = _request(options.action, options.words)
    from orchestrator.execution import requests
    from orchestrator.execution.status import is_running
    from orchestrator.planning.plan import load_plan

    plan = load_plan(options.name)
    module = "sweep" if plan.kind == "search" else "compare"
    require(
        is_running(plan),
        f"{plan.name} is not running; continue it with: "
        f"python -m orchestrator.{module} --resume {plan.name}",
    )
    requests.write(plan.folder, request)
    deadline = time.monotonic() + ANSWER_SECONDS
    while not (answer := requests.answers(plan.folder).get(request.id)):
        if time.monotonic() > deadline:
            print(
                f"{plan.name} has not answered yet; it obeys when its trials run, or after a resume"
            )
            return 0
        time.sleep(0.1)
    require(not answer.refused, answer.refused)
    print(DONE[options.action].format(name=plan.name, trial=request.trial))
    return 0


def _request(action: str, words: Sequence[str]) -> "Request":
    from orchestrator.common.provenance import user
    from orchestrator.execution.requests import Request

    if action == "stop-trial":
        return Request(action, trial=_number(words), user=user())
    if action == "enqueue":
        return Request(action, settings=_settings(words), user=user())
    require(not words, f"{action} takes no further words, not {' '.join(words)!r}")
    return Request(action, user=user())


def _number(words: Sequence[str]) -> int:
    if len(words) != 1 or not words[0].isdecimal():
        raise UserError(f"stop-trial needs the number of one trial, not {' '.join(words)!r}")
    return int(words[0])


def _settings(words: Sequence[str]) -> dict[str, str]:
    wrong = [word for word in words if "=" not in word or word.startswith("=")]
    require(
        bool(words) and not wrong,
        "enqueue needs settings as KEY=VALUE, such as training.learning_rate=0.003, not "
        f"{' '.join(wrong)!r}",
    )
    return {key.strip(): value.strip() for key, _, value in (each.partition("=") for each in words)}


if __name__ == "__main__":
    sys.exit(main())

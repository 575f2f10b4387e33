"""Completion of the command `tardis` in a shell: `eval "$(tardis completion bash)"`."""

import argparse
import sys
from collections.abc import Sequence

from orchestrator.console import COMMANDS, load
from orchestrator.reproduce import ALL, REPRODUCTION_NAMES
from tardis_core.cli import Parser, command
from tardis_core.registry import ESTIMATOR_NAMES, MODEL_NAMES, TASK_NAMES

SWEEPS = "$(ls sweeps 2>/dev/null)"  # their names are those of folders
RUNS = "$(ls -d runs/* 2>/dev/null)"
# What follows an option or a command, where the parser itself has no choices.
VALUES = {
    "train --resume": RUNS,
    "train --start-from": RUNS,
    "--resume": SWEEPS,
    "--extend": SWEEPS,
    "--sweeps": SWEEPS,
    "--warm-start": SWEEPS,
    "--model": " ".join(MODEL_NAMES.all()),
    "--models": " ".join(MODEL_NAMES.all()),
    "--estimator": " ".join(ESTIMATOR_NAMES.all()),
    "--estimators": " ".join(ESTIMATOR_NAMES.all()),
    "--scale": "smoke small paper",
}
FIRST = {
    **dict.fromkeys(("train", "sweep", "compare"), " ".join(TASK_NAMES.all())),
    **dict.fromkeys(("status", "ui", "doctor"), SWEEPS),
    "control": SWEEPS,
    "reproduce": " ".join([ALL, *REPRODUCTION_NAMES.all()]),
    **dict.fromkeys(("evaluate", "inspect", "sample"), f"{SWEEPS} {RUNS}"),
}
SCRIPT = """\
_tardis() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands} --help --version"
  else
    case "${{COMP_WORDS[1]}} $previous" in
{values}
      *)
        case "${{COMP_WORDS[1]}}" in
{options}
        esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _tardis tardis"""


def parser() -> Parser:
    """The options of the command."""
    parser = Parser(prog="tardis completion", description=__doc__)
    parser.add_argument("shell", choices=("bash", "zsh"), help="bash or zsh")
    return parser


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Print the script."""
    shell = parser().parse_args(arguments).shell
    if shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    print(script())
    return 0


def script() -> str:
    """A script of bash, made from the parsers of all commands."""
    values, options = [], []
    for name, each in COMMANDS.items():
        actions = load(each.parser)()._actions
        words = [flag for action in actions for flag in action.option_strings]
        words += [
            str(choice)
            for action in actions
            if not action.option_strings
            for choice in action.choices or ()
        ]
        words.append(FIRST.get(name, ""))
        options.append(f'          {name}) words="{" ".join(filter(None, words))}" ;;')
        values += [
            f'      "{name} {flag}") words="{text}" ;;'
            for action in actions
            for flag in action.option_strings
            if (text := _values(action, name, flag))
        ]
    return SCRIPT.format(
        commands=" ".join(COMMANDS), values="\n".join(values), options="\n".join(options)
    )


def _values(action: argparse.Action, name: str, flag: str) -> str:
    if action.choices:
        return " ".join(map(str, action.choices))
    return "" if action.nargs == 0 else VALUES.get(f"{name} {flag}") or VALUES.get(flag, "")


if __name__ == "__main__":
    sys.exit(main())

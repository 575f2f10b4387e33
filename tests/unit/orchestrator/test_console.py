"""The command `tardis`: its subcommands are those of `python -m`, and a shell completes it."""

import shutil
import subprocess

import pytest

from orchestrator import console
from orchestrator.completion import main as completion
from orchestrator.completion import script
from orchestrator.console import COMMANDS, load, main
from tardis_core import __version__


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_can_be_called_and_has_a_parser(name):
    assert callable(load(COMMANDS[name].main))
    assert "--help" in load(COMMANDS[name].parser)().format_help()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_subcommand_calls_it_as_it_was_called(name, monkeypatch):
    make = load(COMMANDS[name].parser)
    monkeypatch.setattr("sys.argv", ["/usr/bin/tardis", name, "--help"])
    assert make().prog == f"tardis {name}"
    monkeypatch.setattr("sys.argv", ["sweep.py", "--help"])
    assert make().prog.endswith(name)
    only_here = ("train", "completion")  # with --track; not a module that is called by itself
    assert make().prog.startswith("tardis " if name in only_here else "python -m ")


def test_a_subcommand_gets_the_other_arguments(monkeypatch):
    calls = []
    monkeypatch.setattr(console, "load", lambda target: lambda rest: calls.append(rest) or 7)
    assert main(["sweep", "copy", "--smoke"]) == 7
    assert calls == [["copy", "--smoke"]]


def test_help_version_and_what_does_not_exist(capsys):
    assert main([]) == main(["--help"]) == 0
    assert "  sweep       search the settings of a task" in capsys.readouterr().out.splitlines()
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tardis-lab {__version__}\n"
    assert main(["sweeep"]) == 2
    assert "unknown command 'sweeep'; choose one of: train, sweep" in capsys.readouterr().err


def completed(folder, *words):
    """What bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    code = f"{script()}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _tardis\n"
    code += 'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", code], cwd=folder, capture_output=True, text=True)
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_commands_tasks_options_values_and_sweeps(tmp_path):
    (tmp_path / "sweeps" / "mine").mkdir(parents=True)
    assert completed(tmp_path, "tardis", "sw") == ["sweep"]
    assert completed(tmp_path, "tardis", "sweep", "rec") == ["recall"]
    assert "--resume" in completed(tmp_path, "tardis", "sweep", "--re")
    assert completed(tmp_path, "tardis", "sweep", "--resume", "") == ["mine"]
    assert completed(tmp_path, "tardis", "train", "copy", "--scale", "s") == ["smoke", "small"]
    assert completed(tmp_path, "tardis", "status", "m") == ["mine"]
    assert completed(tmp_path, "tardis", "sweep", "copy", "--warm-start", "") == ["mine"]
    assert completed(tmp_path, "tardis", "control", "m") == ["mine"]
    assert completed(tmp_path, "tardis", "control", "mine", "st") == ["stop", "stop-trial"]
    assert completed(tmp_path, "tardis", "reproduce", "table-n") == ["table-ntm"]
    assert completed(tmp_path, "tardis", "completion", "z") == ["zsh"]
    (tmp_path / "runs" / "first").mkdir(parents=True)
    assert completed(tmp_path, "tardis", "train", "--resume", "") == ["runs/first"]
    assert completed(tmp_path, "tardis", "inspect", "r") == ["runs/first"]


def test_zsh_uses_the_script_of_bash(capsys):
    assert completion(["zsh"]) == 0
    assert capsys.readouterr().out.startswith("autoload -U +X bashcompinit && bashcompinit\n")

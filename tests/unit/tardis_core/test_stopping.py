"""Signals that ask a process to stop: each command ends with 128 and the number, once or twice."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tardis_core.cli import command
from tardis_core.stopping import NUMBERS, Interrupted, StopSignals, stop_signals


@pytest.fixture(autouse=True)
def same_handlers():
    """A command that was stopped leaves its handlers and its signal: its process ends with it."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    stop_signals.forget()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("times", [1, 2])
def test_a_command_that_is_asked_to_stop_ends_with_its_signal(number, times, capsys):
    saved = []

    @command
    def main(arguments):
        try:
            signal.raise_signal(number)
        finally:
            for _ in range(times - 1):
                signal.raise_signal(number)
            saved.append("everything")
        return 0

    assert main() == 128 + number
    assert saved == ["everything"]
    assert capsys.readouterr().err == "interrupted\n"
    # While Python ends it removes the handlers that are written in Python.
    assert signal.getsignal(number) == signal.SIG_IGN


def test_the_first_signal_decides_the_exit_code_even_if_the_command_went_on():
    @command
    def main(arguments):
        with stop_signals.deferring():
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
        return 0

    assert main() == 128 + signal.SIGHUP


def test_a_signal_calls_the_reaction_of_the_moment_each_time():
    signals, heard = StopSignals(), []
    with signals.listening(), signals.reacting(lambda: heard.append(signals.number)):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    assert heard == [signal.SIGTERM, signal.SIGTERM]


def test_handlers_are_given_back_and_heard_again_after_a_library_took_them():
    signals, before = StopSignals(), signal.getsignal(signal.SIGTERM)
    with signals.listening():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signals.listen()
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


SPEAKER = """
import time
from tardis_core.cli import command
@command
def main(arguments):
    for line in range(3):
        print("line", line, flush=True)
        time.sleep(0.2)
    open("end", "w").close()
    return 7
raise SystemExit(main())
"""


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_nothing(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", SPEAKER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment,
    )
    assert process.stdout.readline() == b"line 0\n"
    process.stdout.close()
    assert process.wait(60) == 7
    assert process.stderr.read() == b""
    assert (tmp_path / "end").exists()


@pytest.mark.slow
def test_other_threads_know_of_a_signal_before_the_main_one_can_react():
    """A library in the main thread may compute, or wait, for long in C."""
    signals, happened = StopSignals(), []

    def ask():
        time.sleep(0.1)  # until the main thread is in C
        os.kill(os.getpid(), signal.SIGTERM)
        while signals.number is None:
            time.sleep(0.001)
        happened.append(signals.number)

    other = threading.Thread(target=ask)
    with signals.listening(), signals.reacting(lambda: happened.append("reaction")):
        other.start()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000)
    other.join()
    assert happened == [signal.SIGTERM, "reaction"]

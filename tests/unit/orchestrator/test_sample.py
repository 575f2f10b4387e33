"""python -m orchestrator.sample: text that continues a prompt."""

import re

import pytest

from orchestrator import sample


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_seed_repeats_the_continuation_of_the_prompt(runs, capsys):
    words = [str(runs / "ptb"), "--prompt", "the ", "--length", "20", "--temperature", "0.5"]
    texts = []
    for seed in ("1", "1", "2"):
        assert sample.main([*words, "--seed", seed]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("the ")
    assert len(texts[0]) == 4 + 20 + 1


@pytest.mark.parametrize(
    ("run", "words", "reason"),
    [
        ("copy", [], "only models of ptb generate text, and .*copy is a model of copy"),
        ("ptb", ["--prompt", "Ω"], "'Ω', which is not in the training text"),
        ("ptb", ["--temperature", "0"], "the temperature must be above 0"),
    ],
)
def test_errors_are_one_line(runs, capsys, run, words, reason):
    assert sample.main([str(runs / run), *words]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert re.search(reason, message)

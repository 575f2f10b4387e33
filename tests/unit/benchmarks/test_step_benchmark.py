"""The benchmark of a training step: its output, the page it writes, its memory measurement."""

import pytest
import torch

from benchmarks.speed import measure, step
from benchmarks.speed.cases import TORCH_LSTM, Size

TINY = Size(T=3, B=2, D=2, H=4, K=3, C=2, A=2)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(step.SIZES, "s", TINY)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(step, "medians", lambda runs, _, slow: measure.medians(runs, 0, slow))


@pytest.mark.slow
def test_quick_prints_the_tables_of_one_size_and_writes_nothing(
    tiny, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert step.main(["--quick"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| s |")]
    assert [row.count("|") for row in rows] == [
        10,
        10,
        8,
        7,
        7,
    ]  # two and one threads, other backends, without gradients
    assert all(float(cell) >= 0 for cell in rows[0].strip("| ").split(" | ")[3:])
    assert not list(tmp_path.iterdir())


def test_an_unknown_size_is_rejected(capsys):
    assert step.main(["--quick", "--size", "xxl"]) == 2
    error = capsys.readouterr().err
    assert all(f"'{size}'" in error or size in error for size in ("--size", "xxl", "xl"))


def test_a_missing_page_is_reported_before_measuring(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert step.main([]) == 2
    assert "--quick" in capsys.readouterr().err


def test_only_the_measured_part_of_the_page_is_replaced(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{step.BEGIN}\nold\n{step.END}\nafter\n")
    monkeypatch.setattr(step, "PAGE", page)
    step.write_page("new\n")
    assert page.read_text() == f"before\n{step.BEGIN}\n\nnew\n\n{step.END}\nafter\n"


def test_the_peak_contains_the_memory_of_a_step():
    before = torch.get_num_threads()
    try:
        peak = measure.peak_here(TORCH_LSTM, TINY._replace(T=400, B=64, H=64))
        # At least h, c and four gates of every step.
        assert 400 * 64 * 64 * 6 * 4 / 2**20 < peak < 400
    finally:
        torch.set_num_threads(before)

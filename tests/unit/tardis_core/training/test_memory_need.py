"""Runs that cannot fit into memory are refused before anything is allocated."""

import os

import pytest

from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.training import memory_need
from tardis_core.training.memory_need import check_memory, least_bytes, total_bytes

SIZES = {"model.hidden": 10, "training.batch": 6, "training.accumulate": 2}
CELLS = {"memory.cells": 5, "memory.address": 3, "memory.content": 4}


def config(**more):
    return make_config("copy", overrides=SIZES | CELLS | {"task.longest": 7} | more)


def test_the_parts_by_hand():
    assert least_bytes(config()) == {
        "weights": 4 * 4 * 10 * 10,  # with its gradient and Adam's averages
        "memory": 4 * 3 * 5 * (3 + 4),  # of one of the two microbatches
        "sequence": 4 * 3 * 7 * (10 + 5),
    }


def test_a_model_without_a_memory_needs_none():
    need = least_bytes(make_config("ptb", "lstm", overrides=SIZES | {"task.length": 9}))
    assert (need["memory"], need["sequence"]) == (0, 4 * 3 * 9 * 10)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"model.hidden": 10**6}, "model.hidden=1000000"),
        (
            {"memory.cells": 10**9, "memory.content": 40},
            "memory.cells=1000000000 or training.batch=6",
        ),
        ({"task.longest": 10**9}, "task.longest=1000000000 or training.batch=6"),
    ],
)
def test_what_does_not_fit_is_refused_and_the_greatest_part_is_named(more, named):
    with pytest.raises(UserError, match=rf"GB of memory, and .*; lower {named}$"):
        check_memory(config(**more))


def test_a_run_may_need_all_the_memory_and_no_more(monkeypatch):
    need = sum(least_bytes(config()).values())
    monkeypatch.setattr(memory_need, "total_bytes", lambda: need)
    check_memory(config())
    monkeypatch.setattr(memory_need, "total_bytes", lambda: need - 1)
    with pytest.raises(UserError, match="needs at least 0 GB of memory, and this machine has 0 GB"):
        check_memory(config())


def test_the_memory_of_a_machine_is_its_pages_times_their_size(monkeypatch):
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.get)
    assert total_bytes() == 4_096_000

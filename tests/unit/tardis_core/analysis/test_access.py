"""What is recorded of the memory is what the model did."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tardis_core.analysis.access import NEVER, Access, record_access, sources
from tardis_core.build import build_network, build_task, load_data
from tardis_core.config import make_config
from tardis_core.errors import UserError
from tardis_core.models.base import MODELS
from tardis_core.models.network import Network
from tardis_core.tasks.base import TASKS, Task


def network_and_task(task: str, model: str = "tardis", **overrides) -> tuple[Network, Task]:
    settings = {"model.hidden": 8, "training.batch": 2, **overrides}
    config = make_config(task, model, scale="smoke", overrides=settings)
    built = build_task(config, load_data(config, source="standin"))
    return build_network(config, built.signature), built


def test_sources_by_hand():
    #            read, written: cell 0 is filled at 0, read at 1, overwritten at 2, read at 3
    read, written = [1, 0, 1, 0, 1], [0, 1, 0, 0, 1]
    actual = sources(np.array(read)[:, None], np.array(written)[:, None], cells=2)
    assert actual[:, 0].tolist() == [NEVER, 0, 1, 2, 1]


@given(st.integers(1, 4).flatmap(lambda k: st.lists(st.tuples(*[st.integers(0, k - 1)] * 2))))
def test_a_source_is_the_last_write_before_the_read(steps):
    read, written = np.array(steps, np.int64).reshape(-1, 2).T
    actual = sources(read[:, None], written[:, None], cells=4)[:, 0]
    for t, source in enumerate(actual):
        earlier = [before for before in range(t) if written[before] == read[t]]
        assert source == (earlier[-1] if earlier else NEVER)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_what_is_read_is_the_microstate_of_the_source(backend):
    network, task = network_and_task("copy", **{"memory.cells": 4, "model.backend": backend})
    batch = task.examples("valid", [0, 1, 2])
    prediction, _ = network(batch.inputs)
    hidden, address = prediction.hidden, network.model.memory_config.address
    microstate_TBC = network.model.W_m(hidden.h_TBH)
    for column, access in enumerate(record_access(network, task, batch)):
        content_TC = hidden.r_TBQ[:, column, address:]
        for t, source in enumerate(access.source_T):
            written = microstate_TBC[source, column]
            expected = written if source != NEVER else torch.zeros_like(written)
            torch.testing.assert_close(content_TC[t], expected)
        assert (access.source_T != NEVER).any()


def test_a_read_of_the_no_op_cell_leads_nowhere():
    network, task = network_and_task("copy", "dntm-discrete", **{"memory.cells": 3})
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.model.parameters():  # so that both heads move about
            parameter.normal_(generator=generator)
    batch = task.examples("valid", [0])
    content_TC = network(batch.inputs)[0].hidden.r_TBQ[:, 0, network.model.memory_config.address :]
    access = record_access(network, task, batch)[0]
    idle_T = access.read_T == 2
    written = sources(access.read_T[:, None], access.written_T[:, None], cells=3)[:, 0]
    assert (written[idle_T] != NEVER).any(), "what was written there is lost"
    assert not content_TC[torch.from_numpy(idle_T)].any()
    np.testing.assert_array_equal(access.source_T, np.where(idle_T, NEVER, written))


def test_the_first_writes_fill_the_memory_and_usage_counts_the_reads():
    network, task = network_and_task("recall", **{"memory.cells": 5})
    access = record_access(network, task, task.examples("test", [0]))[0]
    assert access.written_T[:5].tolist() == [0, 1, 2, 3, 4]
    assert (access.written_T[5:] == access.read_T[5:]).all()
    assert access.usage_TK[-1].tolist() == [int((access.read_T == k).sum()) for k in range(5)]
    assert (access.usage_TK.sum(1) == np.arange(1, access.steps + 1)).all()
    np.testing.assert_allclose(access.probability_TK.sum(1), 1, rtol=1e-5)
    assert (access.probability_TK.argmax(1) == access.read_T).all()
    assert access.alpha_T is None  # the presets of recall have no RESET gates


@pytest.mark.parametrize("task", ["strokes", "snli"])
def test_a_padded_sequence_is_recorded_as_if_it_were_alone(task):
    network, built = network_and_task(task)
    together = record_access(network, built, built.examples("test", range(6)))
    assert len({access.steps for access in together}) > 1
    for number, access in enumerate(together):
        same_access(access, record_access(network, built, built.examples("test", [number]))[0])


def same_access(one: Access, other: Access) -> None:
    assert one.labels == other.labels
    assert len(one.labels) == one.steps
    for name in ("scored_T", "read_T", "written_T", "source_T"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_allclose(one.probability_TK, other.probability_TK, rtol=1e-4)
    for name in ("alpha_T", "beta_T"):
        if getattr(one, name) is not None:
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-4)


def test_alpha_and_beta_are_those_of_the_model():
    network, task = network_and_task("ptb")
    batch = task.examples("valid", [3])
    access = record_access(network, task, batch)[0]
    reset_T2 = network(batch.inputs)[0].hidden.reset_TB2[:, 0].detach().numpy()
    np.testing.assert_array_equal(access.alpha_T, reset_T2[:, 0])
    np.testing.assert_array_equal(access.beta_T, reset_T2[:, 1])


def test_a_model_without_a_memory_is_refused_in_one_sentence():
    network, task = network_and_task("copy", "lstm")
    with pytest.raises(UserError, match=r"reads one memory cell per step.*Lstm does not"):
        record_access(network, task, task.examples("valid", [0]))


# Labels


def labels_of(name: str, split: str = "test", number: int = 0) -> tuple[list[str], Task]:
    _, task = network_and_task(name)
    return task.labels(task.examples(split, [number]), 0), task


def test_labels_of_copy_are_the_bits_shown_and_asked_for():
    labels, task = labels_of("copy")
    length = task.config.longest
    assert (labels[0], labels[length + 1]) == ("start", "end")
    assert labels[1 : length + 1] == labels[length + 2 :]
    assert all(len(label) == 8 and set(label) <= set("01") for label in labels[1 : length + 1])


def test_labels_of_recall_name_the_markers_and_the_item_asked_for():
    labels, _ = labels_of("recall")
    shown, query, answer = labels[:-8], labels[-7:-4], labels[-3:]
    assert (labels[-8], labels[-4]) == ("query", "query")
    items = [shown[i + 1 : i + 4] for i, label in enumerate(shown) if label == "item"]
    assert items[items.index(query) + 1] == answer


def test_labels_of_ptb_are_the_text():
    labels, task = labels_of("ptb", number=1)
    start = task.config.length
    text = task.data.decode(task.data.test[start - 1 : 2 * start - 1])
    assert "".join(labels) == text.replace(" ", "_").replace("\n", "↵")


def test_labels_of_snli_are_the_words():
    labels, task = labels_of("snli", number=2)
    premise, hypothesis, _ = task.data.test.pair(2)
    words = task.data.words
    assert labels == [
        *[words[i] for i in premise],
        "<sep>",
        *[words[i] for i in hypothesis],
    ]


def test_labels_of_strokes_follow_the_pen():
    labels, task = labels_of("strokes")
    batch = task.examples("test", [0])
    answers = batch.targets[batch.scored_TB[:, 0], 0].tolist()
    assert labels[-task.config.digits :] == ["?", *map(str, answers[:-1])]
    assert labels.count("|") == task.config.digits
    ways = {"→": (1, 0), "↗": (1, -1), "↑": (0, -1), "↖": (-1, -1), "·": (0, 0)}
    ways |= {"←": (-1, 0), "↙": (-1, 1), "↓": (0, 1), "↘": (1, 1)}
    pen = batch.inputs[:, 0, :2].sign().int().tolist()
    moves = [(label, tuple(way)) for label, way in zip(labels, pen, strict=True) if label in ways]
    assert len(moves) > 10
    straight = [(label, way) for label, way in moves if 0 in way]
    assert all(ways[label] == way for label, way in straight)


def test_a_task_that_says_nothing_is_labelled_by_the_number_of_the_step():
    _, task = network_and_task("copy")
    batch = task.examples("valid", [0])
    assert Task.labels(task, batch, 0)[:3] == ["0", "1", "2"]


@pytest.mark.parametrize("name", TASKS.names())
def test_an_example_that_does_not_exist_is_refused(name):
    _, task = network_and_task(name)
    for number in (-1, 10**9):
        with pytest.raises(UserError, match=f"an example is a number from 0 to .*, not {number}"):
            task.examples("test", [number])


@pytest.mark.parametrize("model", MODELS.names())
def test_every_model_can_be_looked_into_or_says_why_not(model):
    network, task = network_and_task("copy", model)
    batch = task.examples("valid", [0, 1])
    if network(batch.inputs)[0].hidden.reads is None:
        with pytest.raises(UserError, match="does not"):
            record_access(network, task, batch)
        return
    for access in record_access(network, task, batch):
        assert access.steps == len(batch.inputs)
        for cells in (access.read_T, access.written_T):
            assert ((cells >= 0) & (cells < access.cells)).all()
        assert (access.source_T < np.arange(access.steps)).all()

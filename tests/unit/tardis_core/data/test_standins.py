"""Stand-ins: the format of the real data, deterministic, learnable, and never taken for real."""

import hashlib
import re
import socket
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tardis_core.data import ptb, snli
from tardis_core.data.standin_pairs import make_pairs
from tardis_core.data.standin_text import make_text

TEXT = make_text(2_000, seed=1)
PAIRS = make_pairs(3_000, seed=1)


@pytest.mark.parametrize("data", [ptb, snli])
def test_a_stand_in_says_so_and_touches_neither_disk_nor_network(data, tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a stand-in needs nothing")

    monkeypatch.setenv("TARDIS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TARDIS_DATA", str(tmp_path / "absent"))
    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr(socket, "socket", refuse)
    provenance = data.load(tmp_path / "absent", source="standin").provenance
    assert provenance.name.endswith("-standin")
    assert not provenance.real
    assert not provenance.complete
    assert "made up" in provenance.origin
    assert list(tmp_path.iterdir()) == []


def test_the_text_has_the_sizes_meant():
    corpus = ptb.load(source="standin")
    assert len(corpus.train) == pytest.approx(300_000, rel=0.1)
    assert len(corpus.valid) == pytest.approx(30_000, rel=0.1)
    assert len(corpus.test) == pytest.approx(30_000, rel=0.1)
    assert set(corpus.symbols) <= set("\n #$&'*-./0123456789<>N\\abcdefghijklmnopqrstuvwxyz")


def test_the_same_seed_gives_the_same_everywhere():
    # Results on a stand-in are compared by its checksum: a change of these is a change for users.
    text = hashlib.sha256("\n".join(TEXT).encode()).hexdigest()
    pairs = hashlib.sha256(repr(PAIRS).encode()).hexdigest()
    assert (text[:12], pairs[:12]) == ("cec61ce8cc7c", "5b17237358eb")


@given(st.integers(0, 300), st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_the_count_and_the_seed_are_kept(count, seed):
    assert len(make_text(count, seed)) == len(make_pairs(count, seed)) == count
    assert make_text(count, seed) == make_text(count + 5, seed)[:count]
    labels = Counter(label for *_, label in make_pairs(count, seed))
    assert max(labels.values(), default=0) - min(labels[name] for name in snli.LABELS) <= 1


def test_a_line_is_words_between_single_spaces():
    word = re.compile(r"[a-z]+(-[a-z]+)?|N|<unk>|\$|&|'s|(mr|ms|co|no)\.")
    for line in TEXT:
        assert all(word.fullmatch(token) for token in line.split(" ")), line


def test_few_words_are_frequent_and_many_are_rare():
    counts = sorted(Counter(" ".join(TEXT).split()).values(), reverse=True)
    assert 1_000 < len(counts) < 6_000
    assert sum(counts[:100]) > 0.5 * sum(counts)
    assert sum(count <= 3 for count in counts) > 0.3 * len(counts)


def test_verbs_agree_with_the_pronoun():
    after = [line.split()[1:3] for line in TEXT if line.split()[0] in ("he", "she")]
    message = [words for words in after if words[0] != "said"]
    assert len(message) > 100
    assert all(any(word.endswith("s") for word in words) for words in message)


def test_a_document_comes_back_to_its_words():
    sentences = [{word for word in line.split() if len(word) > 4} for line in TEXT]
    near = sum(bool(a & b) for a, b in pairwise(sentences))
    far = sum(bool(a & b) for a, b in zip(sentences, sentences[50:], strict=False))
    assert near > 1.5 * far


def test_an_entailed_hypothesis_repeats_the_premise_and_a_neutral_one_does_not():
    message = {label: [] for label in snli.LABELS}
    for premise, hypothesis, label in PAIRS:
        detail = hypothesis.split()[-2]
        message[label].append(detail in premise.split())
    assert all(message["entailment"])
    assert not any(message["neutral"])
    assert not any(message["contradiction"])


def test_a_hypothesis_alone_does_not_give_the_label_away():
    by_detail: dict[str, Counter] = {}
    for _, hypothesis, label in PAIRS:
        by_detail.setdefault(hypothesis.split()[-2], Counter())[label] += 1
    guessed = sum(max(counts.values()) for counts in by_detail.values())
    assert guessed / len(PAIRS) < 0.45

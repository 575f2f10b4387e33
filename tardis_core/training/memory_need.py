"""How much memory a configuration needs at least: it is refused before anything is allocated."""

import os

from tardis_core.config import Config
from tardis_core.errors import require

BYTES = 4  # of a number
COPIES = 4  # of each weight: itself, its gradient, and two averages of Adam
# The settings that each part of the estimate grows with, for the message.
PARTS = {
    "weights": ("model.hidden",),
    "memory": ("memory.cells", "training.batch"),
    "sequence": ("task.longest", "task.length", "training.batch"),
}


def check_memory(config: Config) -> None:
    """Raise `UserError` if a training run cannot fit into the memory of this machine."""
    need, total = least_bytes(config), total_bytes()
    largest = max(need, key=lambda part: need[part])
    settings = config.settings()
    named = [f"{name}={settings[name]}" for name in PARTS[largest] if name in settings]
    require(
        sum(need.values()) <= total,
        f"training needs at least {sum(need.values()) / 1e9:,.0f} GB of memory, and this machine "
        f"has {total / 1e9:,.0f} GB; lower {' or '.join(named)}",
    )


def least_bytes(config: Config) -> dict[str, float]:
    """A lower bound of the memory of one update, in bytes, by part."""
    settings = config.settings()

    def size(name: str) -> float:
        return float(settings.get(name, 0))

    hidden, cells = size("model.hidden"), size("memory.cells")
    batch = size("training.batch") / size("training.accumulate")
    steps = max(size("task.longest"), size("task.length"))
    width = size("memory.address") + size("memory.content")
    return {
        "weights": BYTES * COPIES * hidden * hidden,
        "memory": BYTES * batch * cells * width,
        "sequence": BYTES * batch * steps * (hidden + cells),
    }


def total_bytes() -> float:
    """The memory of this machine."""
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))

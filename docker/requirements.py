"""Print the dependencies of a package and its extras: `requirements.py pyproject.toml EXTRA...`."""

import sys
import tomllib
from pathlib import Path


def requirements(pyproject: Path, extras: list[str]) -> list[str]:
    """The dependencies, in the order of the file."""
    project = tomllib.loads(pyproject.read_text())["project"]
    dependencies = list(project["dependencies"])
    for extra in extras:
        dependencies += project["optional-dependencies"][extra]
    return dependencies


if __name__ == "__main__":
    print("\n".join(requirements(Path(sys.argv[1]), sys.argv[2:])))

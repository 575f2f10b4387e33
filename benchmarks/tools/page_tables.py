"""Tables of the docs, for the tools that draw them."""

import pandas as pd

from tardis_core.errors import UserError


def table_below(page: str, heading: str, column: str) -> pd.DataFrame:
    """The first table below a heading with a column that begins so; every cell is text."""
    lines = iter(page.splitlines())
    if not any(line.lstrip("# ") == heading for line in lines if line.startswith("#")):
        raise UserError(f"the page must have the heading {heading!r}")
    rows: list[list[str]] = []
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not rows:
            rows = [cells] if any(cell.startswith(column) for cell in cells) else []
        elif not line.startswith("|"):
            break
        elif not set(line) <= set("|-"):
            rows.append(cells)
    if len(rows) < 2:
        raise UserError(f"below {heading!r} must be a table with a column {column!r}")
    return pd.DataFrame(rows[1:], columns=rows[0])

"""Numbers for people: as many places as a column has, and two digits that say something of whatever is too small for them."""

from __future__ import annotations


def brief(value: float, places: int = 2, *, signed: bool = False) -> str:
    """0.25 stays 0.25, but 0.00031 is not 0.00; a zero has no sign."""
    if value == 0:
        return f"{0:.{places}f}"
    small = abs(value) < 0.95 * 10.0 ** (1 - places)
    return f"{value:{'+' if signed else ''}.{'2g' if small else f'{places}f'}}"

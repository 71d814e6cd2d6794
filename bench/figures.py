"""How numbers are written, in sentences and in tables."""

import math


def share(part: float) -> str:
    """A share of one as a whole percentage."""
    return f"{100 * part:.0f} %"


def digits(value: float | None) -> str:
    """Three significant digits, or all digits before the point: 0.0123, 8.40, 59.2, 1,974; a dash for no value."""
    if value is None:
        return "–"
    places = 2 - math.floor(math.log10(abs(value))) if value else 0
    return f"{value or 0:,.{min(max(0, places), 6)}f}"


def callers(users: int) -> str:
    return "1 caller" if users == 1 else f"{users} callers"

"""How the numbers of sentences are written."""


def figure(ratio: float) -> str:
    """Two decimals, and as many more as keep it from reading as 1 when it is not."""
    for decimals in (2, 3, 4):
        if round(ratio, decimals) != 1:
            return f"{ratio:.{decimals}f}"
    return "1.00"


def share(part: float) -> str:
    """A share of one as a whole percentage."""
    return f"{100 * part:.0f} %"

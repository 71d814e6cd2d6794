"""Load: a user class per route, what it sends and how an answer is checked. Never imports `gateways`."""

import sys
from pathlib import Path

GENERATED = str(Path(__file__).parents[1] / "proto" / "gen")
"""The messages' modules. The images have it on their path; a host has not."""
if GENERATED not in sys.path:
    sys.path.append(GENERATED)

"""Start of every gateway: the address it listens on, and the format of its log."""

import logging
import os


def listen(port: int) -> tuple[str, int]:
    """Host and port that LISTEN (host:port) names; without it `port` of every address."""
    host, _, chosen = os.environ.get("LISTEN", f"0.0.0.0:{port}").rpartition(":")
    return host, int(chosen)


def log_to_stderr() -> None:
    """One line per event, from INFO on."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")

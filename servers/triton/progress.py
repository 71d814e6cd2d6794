"""Say every ten seconds how long Triton has been loading and what its engine cache holds: `progress.py FOLDER`.

Triton opens its port when every model is loaded and warm; TensorRT, which takes minutes, says nothing meanwhile.
"""

import socket
import sys
import time
from pathlib import Path

PORT = 8000
EVERY_S = 10


def main(folder: Path) -> None:
    started = time.monotonic()
    before = len(engines(folder))
    while not answers():
        waited = time.monotonic() - started
        built = engines(folder)
        size = sum(path.stat().st_size for path in built) / 1e6
        say(f"loading models and building engines: {waited:.0f} s, {len(built)} engines in the cache ({size:.0f} MB)")
        time.sleep(EVERY_S)
    new = len(engines(folder)) - before
    say(f"every model is loaded after {time.monotonic() - started:.0f} s: {before} engines found, {new} built")


def engines(folder: Path) -> list[Path]:
    return list(folder.glob("*/*.engine"))


def answers() -> bool:
    try:
        socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
    except OSError:
        return False
    return True


def say(text: str) -> None:
    print(f"triton: {text}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

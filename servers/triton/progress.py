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
    before = len(list(folder.glob("*/*.engine")))
    while True:
        waited, engines = time.monotonic() - started, list(folder.glob("*/*.engine"))
        try:
            socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
        except OSError:
            size = sum(path.stat().st_size for path in engines) / 1e6
            cache = f"{len(engines)} engines in the cache ({size:.0f} MB)"
            say(f"loading models and building engines: {waited:.0f} s, {cache}")
            time.sleep(EVERY_S)
        else:
            new = len(engines) - before
            return say(f"every model is loaded after {waited:.0f} s: {before} engines found, {new} built")


def say(text: str) -> None:
    print(f"triton: {text}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

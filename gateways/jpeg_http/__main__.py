"""Run the server: `python3 -m gateways.jpeg_http`. What it serves is read from ARTIFACTS (/artifacts), and followed.

LISTEN is its host:port, by default port 8000 of every address; METRICS_PORT is where Prometheus asks,
OTLP_ENDPOINT where traces go.
"""

import logging
import sys
from functools import partial

from gateways.core import metrics, traces
from gateways.core.following import Followed
from gateways.core.serving import ARTIFACTS, ServingError
from gateways.jpeg_http import PORT
from gateways.jpeg_http.app import create_app
from gateways.jpeg_http.served import Served
from gateways.web.server import serve

SWITCH_S = 0.0005


def main() -> None:
    # A thread that computes asks for the interpreter's lock many times a photo: it need not wait 5 ms each time.
    sys.setswitchinterval(SWITCH_S)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns about errors that the client is told of
    try:
        followed = Followed(ARTIFACTS, partial(Served, ARTIFACTS))
    except ServingError as error:
        sys.exit(f"jpeg-http: {error}")
    traces.export("jpeg-http")
    metrics.expose(lambda: followed.now.pending)
    serve(create_app(followed), PORT)


if __name__ == "__main__":
    main()

"""Loaded by Locust after the locustfile, in tests: shorter pauses, and a matrix of three steps."""

import locust.runners
import locust.web

from locustfiles.page import shape

locust.runners.WORKER_REPORT_INTERVAL = 0.2
locust.web.DEFAULT_CACHE_TIME = 0.1
shape.WARM_S = shape.PAUSE_S = 0.1
vars(shape)["matrix"] = lambda: [(1, 1), (4, 1), (1, 4)]

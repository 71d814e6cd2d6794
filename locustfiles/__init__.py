"""Load: a user class per route, what it sends and how an answer is checked. Never imports `gateways`."""

"""Connection policies, counted at the socket: how many connections calls make, and what is shared."""

import json
from pathlib import Path

from tests.unit.locust_processes import paths, run
from tests.unit.locust_servers import standing_in
from tests.unit.tiny_artifacts import tiny

CALLS = 3
# A process of its own: the clients want gevent's patches. Four users call at the same time.
USERS = """
import json, sys
import locust, gevent
from locustfiles.calls import requests_of
from locustfiles.routes import ROUTES
from locustfiles.settings import Settings
from locustfiles.user import connect

def use(client, payload, calls):
    for _ in range(calls):
        client.send(payload)

for address, name, policy, calls in json.loads(sys.argv[1]):
    opened = []
    chosen = Settings(address, policy=policy)
    clients = [connect(ROUTES[name], chosen, lambda: opened.append(1)) for _ in range(4)]
    payload = requests_of(ROUTES[name], chosen)[0]
    gevent.joinall([gevent.spawn(use, client, payload, calls) for client in clients], raise_error=True)
    for client in clients:
        client.close()
    print(len(opened), flush=True)
"""


def test_connections_are_what_the_policy_says(tmp_path: Path) -> None:
    """Four users make three calls each: the server accepts what the policy says, and the clients know how many."""
    wanted = {"pooled": 4, "shared": 1, "cold": 4 * CALLS}
    cases = [(route, policy) for route in ("onnx-http", "onnx-grpc") for policy in wanted]
    with standing_in() as one, standing_in() as other:
        servers = {"onnx-http": one, "onnx-grpc": other}
        asked = [(servers[route].host.removeprefix("http://"), route, policy, CALLS) for route, policy in cases]
        status, out, err = run("-c", USERS, json.dumps(asked), env=paths(tiny(tmp_path / "artifacts")))
        accepted = [server.accepted for server in servers.values()]
    assert status == 0, err
    assert [int(line) for line in out.split()] == [wanted[policy] for _, policy in cases]
    assert accepted == [sum(wanted.values())] * 2

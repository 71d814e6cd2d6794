"""Connection policies, counted at the socket: how many connections calls make, and what is shared."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SERVER = Path(__file__).with_name("counting_server.py")
CALLS = 3
# A process of its own: the clients want gevent's patches. Four users call at the same time.
USERS = """
import json, sys
import locust, gevent
from locustfiles import settings
from locustfiles.clients import Payload
from locustfiles.routes import ROUTES
from locustfiles.serving import Serving
from locustfiles.user import connect

route, policy, port, calls = ROUTES[sys.argv[1]], sys.argv[2], sys.argv[3], int(sys.argv[4])
opened = []
chosen = settings.Settings(f"127.0.0.1:{port}", policy=policy, serving=Serving("tiny", ("tiny",), True))
clients = [connect(route, chosen, lambda: opened.append(1)) for _ in range(4)]

def use(client):
    for _ in range(calls):
        client.send(Payload(b"x" * 100, 1))

gevent.joinall([gevent.spawn(use, client) for client in clients], raise_error=True)
for client in clients:
    client.close()
print(json.dumps(len(opened)))
"""


@pytest.mark.parametrize("route", ["onnx-http", "onnx-grpc"])
@pytest.mark.parametrize(("policy", "connections"), [("pooled", 4), ("shared", 1), ("cold", 4 * CALLS)])
def test_connections_are_what_the_policy_says(route: str, policy: str, connections: int) -> None:
    """Four users make three calls each: the server accepts what the policy says, and the clients know how many."""
    protocol = "HTTP" if route.endswith("http") else "gRPC"
    with subprocess.Popen(
        [sys.executable, SERVER, protocol], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout
        users = [sys.executable, "-c", USERS, route, policy, server.stdout.readline().strip(), str(CALLS)]
        done = subprocess.run(users, capture_output=True, text=True, timeout=60, check=False)
        accepted, _ = server.communicate()
    assert done.returncode == 0, done.stderr
    assert (int(accepted), json.loads(done.stdout)) == (connections, connections)

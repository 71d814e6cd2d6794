"""What prometheus-adapter would answer with the rule of docs/kubernetes.md: a gauge of each pod, read from the pods."""

import http.server
import json
import re
import ssl
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

API = "/apis/custom.metrics.k8s.io/v1beta1"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def pods(namespace: str, query: str) -> list[Any]:
    """As the API lists them; `query` has the HPA's selector of labels."""
    headers = {"authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"}
    url = f"https://kubernetes.default.svc/api/v1/namespaces/{namespace}/pods?{query}"
    trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    found = json.load(urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5, context=trusted))
    return [pod for pod in found["items"] if pod["status"].get("podIP")]


def gauge(pod: Any, name: str) -> float:
    """The sum over the models of one Triton."""
    page = urllib.request.urlopen(f"http://{pod['status']['podIP']}:8002/metrics", timeout=5).read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}\{{.*\}} (\S+)$", page, re.M))


def values(namespace: str, name: str, query: str) -> list[dict[str, Any]]:
    """Of the pods that answer: one that starts has no metrics yet."""
    found = []
    for pod in pods(namespace, query):
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod["metadata"]["name"]}
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            value = str(round(gauge(pod, name)))
        except OSError:
            continue
        found.append({"describedObject": about, "metricName": name, "timestamp": now, "value": value})
    return found


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, version = API.split("/")[2:]
        answer: dict[str, Any] = {"kind": "APIResourceList", "groupVersion": f"{kind}/{version}", "resources": []}
        if asked := re.fullmatch(rf"{API}/namespaces/(\S+)/pods/%2A/(\w+)\?(\S+)", self.path):
            answer = {"kind": "MetricValueList", "apiVersion": f"{kind}/{version}", "items": values(*asked.groups())}
        elif self.path.partition("?")[0] != API:
            self.send_error(404)
            return
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("", 8443), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/adapter/cert.pem", "/adapter/key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()

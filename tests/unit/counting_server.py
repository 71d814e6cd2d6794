"""A server that counts the TCP connections it accepts: `python counting_server.py HTTP|gRPC`.

Prints its port; when stdin ends, how many connections there were. It answers every call after DELAY_S.
"""

import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc

DELAY_S = 0.02
accepted = 0


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        time.sleep(DELAY_S)
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


class Grpc(grpc.GenericRpcHandler):
    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        return grpc.unary_unary_rpc_method_handler(self.answer)

    def answer(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        time.sleep(DELAY_S)
        return b""


def copy(source: socket.socket, sink: socket.socket) -> None:
    while data := source.recv(65536):
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)


def count(listener: socket.socket, behind: int) -> None:
    """Accept, count, and pass every byte on to the server behind."""
    global accepted
    while True:
        client, _ = listener.accept()
        accepted += 1
        server = socket.create_connection(("127.0.0.1", behind))
        for pair in ((client, server), (server, client)):
            threading.Thread(target=copy, args=pair, daemon=True).start()


def main() -> None:
    if sys.argv[1] == "HTTP":
        http = ThreadingHTTPServer(("127.0.0.1", 0), Http)
        http.daemon_threads = True
        threading.Thread(target=http.serve_forever, daemon=True).start()
        behind = http.server_port
    else:
        server = grpc.server(ThreadPoolExecutor(8))
        server.add_generic_rpc_handlers((Grpc(),))
        behind = server.add_insecure_port("127.0.0.1:0")
        server.start()
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    threading.Thread(target=count, args=(listener, behind), daemon=True).start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()
    print(accepted, flush=True)


if __name__ == "__main__":
    main()

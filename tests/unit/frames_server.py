"""The gateway of frames with the shared folder of its argument: prints its HTTP and gRPC port, ends with its stdin."""

import socket
import sys
import threading
from pathlib import Path

import uvicorn

from gateways.transport.frames.frame import Usage
from gateways.transport.frames.grpc import create_server
from gateways.transport.frames.http import create_app
from gateways.transport.frames.zeromq import ZmqServer


def main() -> None:
    usage = Usage()
    zeromq = ZmqServer(Path(sys.argv[1]), usage)
    zeromq.start()
    grpc_server = create_server(usage)
    grpc_port = grpc_server.add_insecure_port("127.0.0.1:0")
    grpc_server.start()
    with socket.create_server(("127.0.0.1", 0)) as sock:
        http = uvicorn.Server(uvicorn.Config(create_app(usage), log_config=None, http="httptools"))
        thread = threading.Thread(target=http.run, args=([sock],))
        thread.start()
        print(sock.getsockname()[1], grpc_port, flush=True)
        sys.stdin.read()
        http.should_exit = True
        thread.join()
    grpc_server.stop(None).wait()
    zeromq.stop()


if __name__ == "__main__":
    main()

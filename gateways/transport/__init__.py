"""Servers without a model, which show the cost of a call alone. One package and one image; each name below is a
container.

echo       echo-http, echo-grpc: requests and answers of a published REST against gRPC comparison
seldon     seldon-http, seldon-grpc: Seldon's v1 protocol
frames     frames: video frames over HTTP, gRPC, ZeroMQ and shared memory
"""

PORT, GRPC_PORT = 8000, 50051
NAMES = ("echo-http", "echo-grpc", "frames", "seldon-http", "seldon-grpc")

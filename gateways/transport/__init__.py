"""Servers without a model: what a call costs by itself. One package, one image, a container for each name.

echo       echo-http, echo-grpc: requests and answers of a published REST against gRPC comparison
seldon     seldon-http, seldon-grpc: Seldon's v1 protocol
frames     frames: video frames over HTTP, gRPC, ZeroMQ and shared memory
"""

PORT, GRPC_PORT = 8000, 50051
NAMES = ("echo-http", "echo-grpc", "frames", "seldon-http", "seldon-grpc")

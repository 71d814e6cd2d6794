"""gRPC without a model (route `echo-grpc`): what a call costs when nothing is computed."""

PORT = 50051

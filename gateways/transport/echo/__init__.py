"""HTTP and gRPC without a model (routes `echo-http`, `echo-grpc`): what a call costs when nothing is computed."""

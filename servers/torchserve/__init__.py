"""TorchServe with a handler of ours (routes `torchserve-http` and `torchserve-grpc`)."""

"""gRPC with our typed contract: JPEGs in; embeddings, labels and scores out, from TorchServe or Triton."""

PORT = 50051

"""Seldon's v1 protocol without a model: payload is what REST and gRPC share."""

"""Seldon's v1 protocol without a model: what the REST and the gRPC gateway share."""

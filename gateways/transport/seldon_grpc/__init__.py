"""Seldon's v1 protocol over gRPC (route `seldon-grpc`)."""

PORT = 50051

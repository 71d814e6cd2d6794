"""Shared by the gRPC services: start and options, errors as a status, timing as metadata, unknown methods, probe."""

"""What the gRPC services share: start and options, errors as a status, timing as metadata, unknown methods, probe."""

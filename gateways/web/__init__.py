"""Shared by the HTTP services: start, bounded bodies, admission, errors as JSON, the Server-Timing header."""

"""Shared by every server. Nothing here depends on a transport or a model runtime."""

"""Seldon's v1 protocol over REST (route `seldon-http`)."""

PORT = 8000

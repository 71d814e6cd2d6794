"""What the HTTP gateways share: bounded bodies, errors as JSON, the Server-Timing header."""

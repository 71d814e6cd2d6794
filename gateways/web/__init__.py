"""What the HTTP services share: start, bounded bodies, admission, errors as JSON, the Server-Timing header."""

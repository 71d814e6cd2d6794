"""The scripts: bash that checks arguments. Their logic is in `host`."""

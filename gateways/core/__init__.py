"""What every server shares. Nothing here knows a transport or a model runtime."""

"""What every gateway shares. Nothing here knows a transport or a model runtime: it needs numpy and Pillow only."""

"""JPEG over HTTP: FastAPI in front of PyTorch in the same process (route `jpeg-http`)."""

PORT = 8000

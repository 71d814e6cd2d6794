"""HTTP without a model (route `echo-http`): what a call costs when nothing is computed."""

PORT = 8000

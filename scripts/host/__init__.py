"""The logic of the verbs. It runs on the host, where nothing is installed yet: Python 3.10's standard library alone."""

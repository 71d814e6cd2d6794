"""The logic of the scripts. It runs on the host, where nothing is installed yet, so it needs Python 3.10's standard
library only."""

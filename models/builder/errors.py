"""The one exception that the builder reports as a line of text; any other that escapes is a bug, with its traceback."""


class BuildError(Exception):
    """The artefacts cannot be made. The message is one line: what is wrong and what to do."""

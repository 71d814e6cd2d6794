"""Our code inside other projects' servers."""

"""The verbs: bash that looks at its arguments; `host` is their logic."""

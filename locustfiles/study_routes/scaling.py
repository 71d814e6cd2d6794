"""The rows of study `scaling`: every route of the stack."""

from locustfiles.routes import ROUTES

ROWS = ROUTES

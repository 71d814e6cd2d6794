"""The output of a run: JSON, tables, plots and pages."""

"""What a run leaves behind: JSON, tables, plots and pages."""

"""The bench: cells measured side by side by Locust, judged by statistics, kept in results/, explained by a report.

    plan -> run (one Locust process group per visit of a cell: group.py) -> statistics -> verdicts -> results -> report

measured.py has the types of what a run measures; the other modules take and return them.
"""

"""The bench: cells measured side by side by Locust, judged by statistics, kept in results/, explained by a report.

    plan -> run (one Locust process group per visit of a cell: group.py) -> statistics -> verdicts -> results -> report

What a run measures is in measured.py; every other page takes it in or gives it out.
"""

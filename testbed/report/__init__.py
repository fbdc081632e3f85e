"""Figures and pages from tables of results, independent of how those were made.

Nothing is imported here, because statistics and names are also needed without drawing.
"""

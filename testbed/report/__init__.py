"""Figures and pages from tables of results, independent of how those were made.

Nothing is imported here: statistics and names are needed where drawing is not.
"""

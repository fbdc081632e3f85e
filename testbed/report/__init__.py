"""Figures and pages from results. Knows tables, and nothing of how they came about."""

from testbed.report.drawing import Picture
from testbed.report.look import Look
from testbed.report.page import build

__all__ = ["Look", "Picture", "build"]

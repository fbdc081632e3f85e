"""Figures and pages from results. Knows tables, and nothing of how they came about."""

from testbed.report.drawing import Picture
from testbed.report.page import build
from testbed.report.system_style import SystemStyle

__all__ = ["Picture", "SystemStyle", "build"]

"""Figures and pages from tables of results, independent of how those were made."""

from testbed.report.drawing import Picture
from testbed.report.page import build
from testbed.report.system_style import SystemStyle

__all__ = ["Picture", "SystemStyle", "build"]

"""Puts what the package needs at run time into the wheel: pyproject.toml says the rest.

Compiled P4, workloads, experiments and the reference's data lie at the top of the repository.
In an installed package they lie in ``testbed/shipped/``, where `testbed.shipped` finds them.
"""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = [
    "p4/*.p4",
    "p4/build/*",
    "workloads/*.trace",
    "workloads/*.npz",
    "workloads/training/*.py",
    "workloads/training/*.trace",
    "experiments/*.yaml",
    "experiments/*.json",
    "experiments/claims/*.yaml",
    "reports/reference/*.csv",
    "reports/reference/*.json",
    "reports/reference/*/results.csv",
    "reports/reference/*/run.json",
    "reports/reference/*/experiment.yaml",
]


class BuildWithShipped(build_py):
    """``build_py``, and the shipped files beside the package. An editable install needs no copy."""

    def run(self) -> None:
        if not self.editable_mode:  # or files that are no longer in the checkout would be shipped
            rmtree(Path(self.build_lib, "testbed"), ignore_errors=True)
        super().run()
        if not self.editable_mode:
            for source, target in self._shipped():
                self.mkpath(str(target.parent))
                self.copy_file(str(source), str(target), preserve_mode=False)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        outputs: list[str] = super().get_outputs(include_bytecode)
        return outputs + [str(target) for _, target in self._shipped()]

    def get_source_files(self) -> list[str]:
        """With the shipped files, which makes them part of the sdist."""
        files: list[str] = super().get_source_files()  # type: ignore[no-untyped-call]
        return files + [str(source) for source, _ in self._shipped()]

    def _shipped(self) -> list[tuple[Path, Path]]:
        folder = Path(self.build_lib, "testbed", "shipped")
        found = []
        for pattern in SHIPPED:
            sources = sorted(Path().glob(pattern))
            if not sources:
                raise FileNotFoundError(f"setup.py: found no {pattern}, wanted some to ship")
            found += [(source, folder / source) for source in sources]
        return found


setup(cmdclass={"build_py": BuildWithShipped})

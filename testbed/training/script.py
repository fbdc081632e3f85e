"""Training scripts: a user's module, loaded and called so that its errors become one line.

A script is a Python file with four functions:

- ``model()``: the ``torch.nn.Module`` that learns, with float32 parameters, on the CPU;
- ``data(rank, world)``: the samples of one worker, as a pair of tensors (inputs, targets) whose
  first dimension is the sample;
- ``loss(model, inputs, targets)``: the mean loss of a batch, a tensor with one value;
- ``evaluate(model)``: a number, on data that no worker has, which it moves to the model's device.

and two optional values: ``metric``, the name of that number (default: ``accuracy``), and
``higher_is_better`` (default: True).
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from testbed.training.errors import TrainingError

FUNCTIONS = ("model", "data", "loss", "evaluate")


@dataclass(frozen=True)
class Script:
    """A loaded script. Its functions raise `TrainingError` if the user's code raises an
    exception."""

    path: Path
    module: ModuleType

    @property
    def metric(self) -> str:
        return " ".join(str(getattr(self.module, "metric", "accuracy")).split())

    @property
    def higher_is_better(self) -> bool:
        return bool(getattr(self.module, "higher_is_better", True))

    def call(self, function: str, *arguments: Any) -> Any:
        """The result of one of the script's functions."""
        called: Callable[..., Any] = getattr(self.module, function)
        with _one_line(self.path, f"{function}()"):
            return called(*arguments)

    @contextmanager
    def running(self, what: str) -> Iterator[None]:
        """A context in which any error is reported as the script's."""
        with _one_line(self.path, what):
            yield


def load(path: Path) -> Script:
    """The script in ``path``. Raises TrainingError if it cannot be imported or lacks a function."""
    spec = spec_from_file_location(f"_training_script_{path.stem.replace('-', '_')}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise TrainingError(f"{path}: found no Python file, wanted a training script")
    module = module_from_spec(spec)
    with _one_line(path, "import"):
        spec.loader.exec_module(module)
    missing = [name for name in FUNCTIONS if not callable(getattr(module, name, None))]
    if missing:
        raise TrainingError(
            f"{path}: found no function {', '.join(missing)}, wanted {', '.join(FUNCTIONS)}"
        )
    return Script(path, module)


@contextmanager
def _one_line(path: Path, what: str) -> Iterator[None]:
    """Report any error as one line, with the last line of the script that was running."""
    try:
        yield
    except TrainingError:
        raise
    except (Exception, SystemExit) as error:  # a script that exits must not look like success
        own = os.path.abspath(path)  # the name that its code has
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == own
        ]
        if isinstance(error, SyntaxError) and error.filename == own:
            lines = [error.lineno]
        at = f":{lines[-1]}" if lines else ""
        said = f": {text}" if (text := " ".join(str(error).split())) else ""
        raise TrainingError(f"{path}{at}: {what} raised {type(error).__name__}{said}") from error

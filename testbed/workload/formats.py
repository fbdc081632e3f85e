"""Workloads in all supported file formats; a file's suffix decides.

``.trace`` is the testbed's own format, ``.et`` (or ``.et.gz``) a Chakra execution trace, ``.csv`` a
layer list of SwitchML's dnn_benchmark. ``.json`` (or ``.json.gz``), an export of PyTorch's
profiler, is read but not written.
"""

from __future__ import annotations

from pathlib import Path

from testbed.replaced import replacing
from testbed.workload import catalogue, chakra, layers, profiler, trace_file
from testbed.workload.trace import Trace, TraceError

_KNOWN = "wanted a name that ends in .trace, .et (Chakra) or .csv (SwitchML's layer list)"
_READ = ".trace, .et or .et.gz (Chakra), .csv (SwitchML's layer list), .json or .json.gz (PyTorch)"


def load(name_or_path: str) -> Trace:
    """A shipped or synthetic workload by name, or a file. Raises TraceError with all problems."""
    if name_or_path.endswith((".et", ".et.gz")):
        return chakra.load(Path(name_or_path))
    if name_or_path.endswith(".csv"):
        return layers.load(Path(name_or_path))
    if name_or_path.endswith((".json", ".json.gz")):
        return profiler.load(Path(name_or_path))
    is_shipped = name_or_path in (*catalogue.names(), *catalogue.trained())
    is_ours = is_shipped or name_or_path.endswith(trace_file.SUFFIX)
    if not is_ours and Path(name_or_path).is_file():
        raise TraceError([f"{name_or_path}: found another end of its name, wanted {_READ}"])
    return catalogue.load(name_or_path)


def save(workload: Trace, path: Path) -> None:
    """Write ``workload`` in the format of the name's suffix. Raises TraceError if it cannot be
    written in that format, and OSError as files do."""
    write = {".trace": trace_file.save, ".et": chakra.save, ".csv": layers.save}.get(path.suffix)
    if write is None:
        raise TraceError([f"found {path.name!r}, {_KNOWN}"])
    try:
        with replacing(path) as made:
            write(workload, made)
    except ValueError as error:
        raise TraceError([f"{path}: {error}"]) from error

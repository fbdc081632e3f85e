"""Convert traces to and from the layer lists of SwitchML's dnn_benchmark.

That CSV (p4lang/p4app-switchML, dev_root/benchmarks/dnn_benchmark) has a line per layer in forward
order: ``layer_index,numel,forward_pass_ns,backward_pass_ns``. The benchmark runs backward from the
last line to the first, so names, the batch and any other order of gradients are lost.
"""

from __future__ import annotations

import re
from pathlib import Path

from testbed.located import contents, reason
from testbed.workload.trace import Tensor, Trace, TraceError

COLUMNS = ("layer_index", "numel", "forward_pass_ns", "backward_pass_ns")
# The benchmark reads each number into a C int.
_LARGEST = 2**31 - 1
_WHOLE = re.compile(r"[0-9]{1,18}")


def save(trace: Trace, path: Path) -> None:
    """Write one line per tensor, times in whole nanoseconds.

    Raises ValueError for a number that the benchmark cannot read (2^31 and more), and for gradients
    other than float32, which it does not have.
    """
    if trace.dtype_bytes != 4:
        raise ValueError(
            f"found gradients of {trace.dtype_bytes} bytes a value, wanted float32, which is all"
            " that SwitchML's benchmark has; export another format"
        )
    lines = [",".join(COLUMNS)]
    for index, tensor in enumerate(trace.tensors):
        numbers = (tensor.elements, _ns(tensor.forward_s), _ns(tensor.backward_s))
        if max(numbers) > _LARGEST:
            raise ValueError(
                f"{tensor.name}: {max(numbers)}, wanted at most {_LARGEST}, the largest that "
                "SwitchML's benchmark reads; scale the trace down"
            )
        lines.append(",".join(str(number) for number in (index, *numbers)))
    path.write_text("".join(f"{line}\n" for line in lines))


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def load(path: Path) -> Trace:
    """Read a layer list: float32 tensors ``layer0``, ``layer1`` ..., a batch of 1.

    Raises TraceError with every problem, each as ``file:line: found, wanted``.
    """
    try:
        lines = contents(path).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError([f"{path}: cannot be read: {reason(error)}"]) from error
    problems: list[str] = []
    header = [cell.strip() for cell in lines[0].split(",")] if lines else []
    if tuple(header) != COLUMNS:
        problems.append(f"{path}:1: wanted the columns {', '.join(COLUMNS)}")
    tensors: list[Tensor] = []
    for number, line in enumerate(lines[1:], 2):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(COLUMNS) or not all(_WHOLE.fullmatch(cell) for cell in cells):
            problems.append(f"{path}:{number}: {line[:60]!r}, wanted four whole numbers")
            continue
        index, elements, forward, backward = (int(cell) for cell in cells)
        if index != number - 2:
            problems.append(f"{path}:{number}: layer {index}, wanted {number - 2}: lines missing?")
        if elements < 1:
            problems.append(f"{path}:{number}: numel {elements}, wanted at least 1")
        tensors.append(Tensor(f"layer{index}", elements, forward / 1e9, backward / 1e9))
    if not tensors:
        problems.append(f"{path}:{len(lines) or 1}: no layer, wanted a line for each: cut?")
    if problems:
        raise TraceError(problems)
    source = "a layer list of SwitchML's dnn_benchmark; gradients in the reverse order of layers"
    return Trace(path.stem, 1, tuple(tensors), provenance={"imported_from": source})

"""Engines that hold the arrays: NumPy, PyTorch on the processor, or PyTorch on a CUDA device. All use the same solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError, did_you_mean
from surefoot.numerics.arrays import Array

ENGINES = ("numpy", "torch", "gpu")


@dataclass(frozen=True)
class Engine:
    """Moves arrays to the device of the computation, and back."""

    name: str

    def to_device(self, values: NDArray[Any]) -> Array:
        """A NumPy array as one of this engine's."""
        if self.name == "numpy":
            return values
        import torch

        return torch.asarray(values, device="cuda" if self.name == "gpu" else "cpu", copy=True)

    def to_numpy(self, values: Array) -> NDArray[Any]:
        """One of this engine's arrays as a NumPy array."""
        return values if self.name == "numpy" else np.asarray(values.cpu())

    def repeatable(self, step: Callable[[], Any]) -> Callable[[], Any]:
        """A step that changes its arrays in place, ready to be repeated many times.

        On a GPU starting the kernels costs more than running them, so they are recorded once and replayed. Recording runs
        nothing: the step's arrays are as before.
        """
        if self.name != "gpu":
            return step
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        replay: Callable[[], Any] = graph.replay
        return replay


NUMPY = Engine("numpy")


def find_engine(name: str) -> Engine:
    """The engine of that name, if this machine has it."""
    if name not in ENGINES:
        raise InputError(f"there is no engine '{name}'{did_you_mean(name, ENGINES)}; choose from {list(ENGINES)}")
    if name != "numpy":
        try:
            import torch
        except ImportError:
            raise InputError(f"engine '{name}' needs PyTorch; install it with: pip install 'surefoot[gpu]'") from None
        if name == "gpu" and not torch.cuda.is_available():
            raise InputError("engine 'gpu' needs a CUDA device, and PyTorch sees none; use engine 'numpy'")
    return Engine(name)

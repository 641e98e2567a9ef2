"""What the examples use of torch, where it is not installed: it has 3 GB. Tensors are numpy's arrays."""

from numpy import ndarray as Tensor  # noqa: F401

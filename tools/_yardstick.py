# mypy: ignore-errors
"""The kernel that speeds are compared with. It stays as it is, or ratios from different dates mean nothing."""

from terapixel_sim.runtime import ti


@ti.kernel
def gather_multiply(  # noqa: ANN202 - Taichi reads the annotations
    x: ti.types.ndarray(ti.f32, ndim=1), index: ti.types.ndarray(ti.i32, ndim=1), y: ti.types.ndarray(ti.f32, ndim=1)
):
    for i in range(y.shape[0]):
        y[i] = x[index[i]] * y[i]

"""Taichi kernels: stateless module-level functions on packed torch tensors.

Nothing here imports annotations from the future (it breaks Taichi), keeps state, or uses `ti.field` or `ti.random`.
"""

"""NumPy float64 twins of the kernels: the specification, and the oracle of the tests."""

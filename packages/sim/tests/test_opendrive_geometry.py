"""Reference-line shapes against hand values and numerical integration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from terapixel_sim.maps.opendrive_file import Cubic
from terapixel_sim.maps.opendrive_geometry import Geometry, arc, reference_line, spiral

curvatures = st.floats(-0.2, 0.2)


def integrate(heading, length):
    """Position after `length` along a line of the given heading function."""
    return [quad(lambda s, f=f: f(heading(s)), 0.0, length, epsabs=1e-11, limit=200)[0] for f in (np.cos, np.sin)]


def test_quarter_circle():
    u, v, heading = arc(np.array([0.0, 5.0 * np.pi]), 0.1)
    np.testing.assert_allclose([u, v, heading], [[0, 10], [0, 10], [0, np.pi / 2]], atol=1e-12)


def test_arc_of_almost_no_curvature_keeps_its_digits():
    _, v, _ = arc(np.array([100.0]), 1e-12)
    assert v[0] == pytest.approx(0.5e-8, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(curvatures, curvatures, st.floats(1.0, 80.0))
def test_spiral_against_integration(start, end, length):
    u, v, heading = spiral(np.array([0.0, 0.37 * length, length]), start, end, length)
    rate = (end - start) / length
    for i, s in enumerate([0.0, 0.37 * length, length]):
        expected = integrate(lambda q: q * (start + 0.5 * rate * q), s)
        np.testing.assert_allclose([u[i], v[i]], expected, atol=1e-6)
        assert heading[i] == pytest.approx(s * (start + 0.5 * rate * s), abs=1e-6)


@pytest.mark.parametrize("end", [0.02, 0.02 + 1e-15, 0.02 + 1e-9, 0.02 + 1e-6])
def test_spiral_of_equal_curvatures_is_an_arc(end):
    s = np.linspace(0.0, 50.0, 6)
    np.testing.assert_allclose(spiral(s, 0.02, end, 50.0), arc(s, 0.02), atol=1e-3)


def test_poly3_stations_are_arc_length():
    g = Geometry(0.0, 0.0, 0.0, 0.0, 40.0, "poly3", (0.0, 0.0, 0.02, 0.0))  # v = 0.02 u^2
    u, v, heading = g.local(np.array([0.0, 17.0, 40.0]))
    for i, s in enumerate([0.0, 17.0, 40.0]):
        assert quad(lambda q: np.hypot(1.0, 0.04 * q), 0.0, u[i])[0] == pytest.approx(s, abs=1e-4)
        assert v[i] == pytest.approx(0.02 * u[i] ** 2, abs=1e-6)
        assert np.tan(heading[i]) == pytest.approx(0.04 * u[i])


def test_param_poly3_parameter_is_metres_or_a_fraction():
    k = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.01, 0.0)
    u, v, heading = Geometry(0.0, 0.0, 0.0, 0.0, 20.0, "paramPoly3", (*k, 1.0)).local(np.array([10.0]))
    np.testing.assert_allclose([u[0], v[0], heading[0]], [10.0, 1.0, np.arctan(0.2)])
    u, v, heading = Geometry(0.0, 0.0, 0.0, 0.0, 20.0, "paramPoly3", (*k, 1.0 / 20.0)).local(np.array([10.0]))
    np.testing.assert_allclose([u[0], v[0], heading[0]], [0.5, 0.0025, np.arctan(0.01)])


def test_reference_line_turns_each_record_into_place():
    records = [
        Geometry(0.0, 1.0, 2.0, np.pi / 2, 10.0, "line", ()),
        Geometry(10.0, 1.0, 12.0, np.pi / 2, 5.0 * np.pi, "arc", (0.1,)),
    ]
    x, y, heading = reference_line(records, np.array([0.0, 4.0, 10.0, 10.0 + 5.0 * np.pi]))
    np.testing.assert_allclose(x, [1, 1, 1, -9], atol=1e-12)
    np.testing.assert_allclose(y, [2, 6, 12, 22], atol=1e-12)
    np.testing.assert_allclose(heading, [np.pi / 2, np.pi / 2, np.pi / 2, np.pi], atol=1e-12)


def test_cubic_jump_at_a_section_end_belongs_to_the_next_section():
    cubic = Cubic(np.array([0.0, 10.0]), np.array([[1.0, 0.1, 0.0, 0.0], [5.0, 0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(cubic(np.array([0.0, 5.0, 10.0])), [1.0, 1.5, 2.0])
    np.testing.assert_allclose(cubic(np.array([10.0, 12.0])), [5.0, 5.0])


def test_curvature_bounds():
    assert Geometry(0, 0, 0, 0, 10.0, "spiral", (0.01, -0.05)).curvature() == 0.05
    bend = Geometry(0, 0, 0, 0, 10.0, "poly3", (0.0, 0.0, 0.05, 0.0)).curvature()
    assert 0.09 < bend <= 0.1

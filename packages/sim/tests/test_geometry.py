"""Boxes and segments: kernels against the float64 twins, twins against shapely."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from shapely import LineString, affinity
from shapely import box as rectangle
from terapixel_sim.kernels import geometry as kernels
from terapixel_sim.reference import geometry as twin
from terapixel_sim.runtime import start, ti

start("cpu")
floats = lambda low, high: st.floats(low, high, width=32)  # noqa: E731
boxes = st.tuples(floats(-6, 6), floats(-6, 6), floats(-3, 3), floats(0.5, 3), floats(0.5, 3))
motions = st.tuples(floats(-8, 8), floats(-8, 8), floats(-1, 1))
points = st.tuples(floats(-6, 6), floats(-6, 6))


@ti.kernel
def run(d: ti.types.ndarray(dtype=ti.f32, ndim=1), out: ti.types.ndarray(dtype=ti.f32, ndim=1)):
    """d: box i, box j, motion i, motion j, segment a-b."""
    for _ in range(1):
        gap, nx, ny = kernels.box_gap(
            d[5] - d[0], d[6] - d[1], ti.cos(d[2]), ti.sin(d[2]), d[3], d[4], ti.cos(d[7]), ti.sin(d[7]), d[8], d[9]
        )
        out[0] = gap
        out[1] = nx
        out[2] = ny
        out[3] = ti.cast(
            kernels.swept_boxes_touch(
                d[5] - d[0], d[6] - d[1], d[13] - d[10], d[14] - d[11],
                d[2], d[12], d[3], d[4], d[7], d[15], d[8], d[9],
            ),
            ti.f32,
        )  # fmt: skip
        out[4] = ti.cast(
            kernels.segment_meets_box(
                d[16] - d[0], d[17] - d[1], d[18] - d[0], d[19] - d[1], ti.cos(d[2]), ti.sin(d[2]), d[3], d[4]
            ),
            ti.f32,
        )
        out[5] = kernels.wrap(d[10])
        out[6] = kernels.path_distance(d[0], d[1], d[5], d[6], d[16], d[17])
        out[7], out[8] = kernels.cosine_sine(d[10])
        out[9] = kernels.arctan2(d[17], d[16])
        out[10] = kernels.exponential(d[10])


def kernel(i, j, motion_i=(0, 0, 0), motion_j=(0, 0, 0), a=(0, 0), b=(1, 1)):
    out = torch.zeros(11)
    run(torch.tensor([*i, *j, *motion_i, *motion_j, *a, *b], dtype=torch.float32), out)
    return out.tolist()


def shape(b, motion=(0, 0, 0), t=0.0):
    r = affinity.rotate(rectangle(-b[3], -b[4], b[3], b[4]), b[2] + t * motion[2], origin=(0, 0), use_radians=True)
    return affinity.translate(r, b[0] + t * motion[0], b[1] + t * motion[1])


@settings(max_examples=150, deadline=None)
@given(i=boxes, j=boxes)
def test_gap_bounds_the_distance(i, j):
    gap, nx, ny, *_ = kernel(i, j)
    assert gap == pytest.approx(twin.box_gap(i, j)[0], abs=1e-4)
    distance = shape(i).distance(shape(j))
    assert max(gap, 0) <= distance + 1e-4
    assert distance / math.sqrt(2) <= max(gap, 0) + 1e-4
    assert math.hypot(nx, ny) == pytest.approx(1, abs=1e-5)
    if gap > 0.01:
        assert nx * (j[0] - i[0]) + ny * (j[1] - i[1]) > 0
        assert not shape(i).intersects(shape(j))
    if gap < -0.01:
        assert shape(i).intersects(shape(j))


@settings(max_examples=60, deadline=None)
@given(i=boxes, j=boxes, motion_i=motions, motion_j=motions)
def test_swept_boxes_equal_the_twin(i, j, motion_i, motion_j):
    hit = bool(kernel(i, j, motion_i, motion_j)[3])
    if twin.swept_boxes_touch(i, j, motion_i, motion_j) != hit:  # float32 decides otherwise only on the brink
        least = min(shape(i, motion_i, t).distance(shape(j, motion_j, t)) for t in np.linspace(0, 1, 400))
        assert least < 0.02


def test_swept_boxes_against_a_thousand_moments():
    """No miss of a contact deeper than 1 cm, no report of boxes that stay more than 1 cm apart."""
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(25):
        i = (0.0, 0.0, rng.uniform(-3, 3), 2.4, 1.0)
        j = (*rng.uniform(-9, 9, 2), rng.uniform(-3, 3), 2.2, 0.9)
        aim = rng.uniform(-3, 3, 2)
        motion_i = (*rng.uniform(-2, 2, 2), rng.uniform(-0.6, 0.6))
        motion_j = (2 * (aim[0] - j[0]), 2 * (aim[1] - j[1]), rng.uniform(-0.6, 0.6))
        hit = bool(kernel(i, j, motion_i, motion_j)[3])
        hits += hit
        least = 1e9
        depth = 0.0
        for t in np.linspace(0, 1, 1000):
            moved = [
                (b[0] + t * m[0], b[1] + t * m[1], b[2] + t * m[2], b[3], b[4])
                for b, m in ((i, motion_i), (j, motion_j))
            ]
            gap = twin.box_gap(*moved)[0]
            depth = max(depth, -gap)
            near = gap < 0.02  # else the gap itself is bound enough
            least = min(least, shape(i, motion_i, t).distance(shape(j, motion_j, t)) if near else gap)
        assert hit or depth < 0.01
        assert not hit or least < 0.01
    assert 5 < hits < 25


def test_tunnelling_through_a_thin_box_is_seen():
    wall = (10.0, 0.0, 0.0, 0.1, 3.0)
    car = (0.0, 0.0, 0.0, 2.0, 1.0)
    assert kernel(car, wall, (20.0, 0.0, 0.0))[3] == 1
    assert kernel(car, wall, (7.8, 0.0, 0.0))[3] == 0
    assert kernel(car, (10.0, 4.2, 0.0, 0.1, 3.0), (20.0, 0.0, 0.0))[3] == 0


def test_a_turning_box_hits_what_lies_beside_it():
    """Clear at the beginning and the end of the turn, and no centre moves."""
    long, post = (0.0, 0.0, 0.0, 3.0, 0.5), (0.0, 2.0, 0.0, 0.2, 0.2)
    assert kernel(long, post, (0.0, 0.0, 3.0))[3] == 1
    assert kernel(long, post, (0.0, 0.0, 0.3))[3] == 0
    assert kernel(long, (0.0, 3.5, 0.0, 0.2, 0.2), (0.0, 0.0, 3.0))[3] == 0


def test_non_finite_poses_end():
    assert kernel((math.nan, 0, 0, 1, 1), (0, 0, 0, 1, 1), (1, 1, 1))[3] == 0


@settings(max_examples=150, deadline=None)
@given(i=boxes, a=points, b=points)
def test_segment_against_box(i, a, b):
    line, body = LineString([a, b]), shape(i)
    hit = bool(kernel(i, i, a=a, b=b)[4])
    distance = line.distance(body)
    if distance > 1e-3:
        assert not hit
        assert not twin.segment_meets_box(a, b, i)
    elif line.intersection(body.buffer(-1e-3)).length > 0:
        assert hit
        assert twin.segment_meets_box(a, b, i)


@settings(max_examples=60, deadline=None)
@given(angle=floats(-12, 12))
def test_wrap(angle):
    wrapped = kernel((0, 0, 0, 1, 1), (9, 0, 0, 1, 1), (angle, 0, 0))[5]
    assert -math.pi - 1e-6 < wrapped <= math.pi + 1e-6
    assert math.remainder(wrapped - angle, 2 * math.pi) == pytest.approx(0, abs=3e-6)


@settings(max_examples=150, deadline=None)
@given(angle=st.one_of(floats(-40, 40), st.integers(-20, 20).map(lambda k: float(np.float32(k * math.pi / 4)))))
def test_cosine_and_sine(angle):
    got = kernel((0, 0, 0, 1, 1), (9, 0, 0, 1, 1), (angle, 0, 0))[7:9]
    assert got == pytest.approx((math.cos(angle), math.sin(angle)), abs=2e-7)


@settings(max_examples=150, deadline=None)
@given(x=st.one_of(floats(-6, 6), st.sampled_from([0.0, 1.0, -1.0])), y=st.one_of(floats(-6, 6), st.just(0.0)))
def test_arctan2(x, y):
    assume(max(abs(x), abs(y)) > 1e-30 or x == y == 0)
    assert kernel((0, 0, 0, 1, 1), (9, 0, 0, 1, 1), a=(x, y))[9] == pytest.approx(
        math.atan2(y + 0.0, x + 0.0), abs=4e-7
    )


@settings(max_examples=150, deadline=None)
@given(x=st.one_of(floats(-80, 80), st.sampled_from([0.0, 0.34657359, -0.34657359])))
def test_exponential(x):
    assert kernel((0, 0, 0, 1, 1), (9, 0, 0, 1, 1), (x, 0, 0))[10] == pytest.approx(math.exp(x), rel=3e-7)


def test_wrap_keeps_plus_pi():
    assert twin.wrap(-math.pi) == twin.wrap(math.pi) == math.pi


@settings(max_examples=60, deadline=None)
@given(p=points, q=points, x=points)
def test_path_distance(p, q, x):
    expected = LineString([p, q]).distance(LineString([x, x]))
    assert kernel((*p, 0, 1, 1), (*q, 0, 1, 1), a=x)[6] == pytest.approx(expected, abs=1e-4)
    assert twin.path_distance(p, q, x) == pytest.approx(expected, abs=1e-4)


def test_path_through_a_joint_crosses_once():
    for p, q in (((0.0, 1.0), (0.0, -1.0)), ((0.0, -1.0), (0.0, 1.0)), ((-1.0, 1.0), (1.0, -1.0))):
        crossed = [
            twin.segments_cross(p, q, (-2.0, 0.0), (0.0, 0.0)),
            twin.segments_cross(p, q, (0.0, 0.0), (2.0, 0.0)),
        ]
        assert sum(crossed) == 1

"""Twin of `kernels/idm.py`, float64: the model's acceleration."""

from __future__ import annotations

import math


def idm_accel(v: float, v0: float, gap: float, leader_speed: float) -> float:
    """Acceleration at speed `v` with desired speed `v0` behind a leader, held to [-5, 2.5] m/s2.

    Treiber et al. 2000 with a = 2, b = 3 m/s2, s0 = 2 m, T = 1.5 s, exponent 4.

    Args:
        v: own speed [m/s].
        v0: desired speed [m/s].
        gap: from bumper to bumper [m].
        leader_speed: along the route [m/s].
    """
    wanted = 2.0 + max(0.0, 1.5 * v + v * (v - leader_speed) / (2.0 * math.sqrt(6.0)))
    accel = 2.0 * (1.0 - (v / max(v0, 0.1)) ** 4 - (wanted / max(gap, 0.1)) ** 2)
    return min(max(accel, -5.0), 2.5)

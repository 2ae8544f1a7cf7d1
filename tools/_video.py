"""A drive as a film: what an agent's cameras see, beside the same moment from above, with the path it plans in both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from _birdseye import BirdsEye, FloatArray
from PIL import Image, ImageDraw
from tensordict import TensorDict
from terapixel_sim import AgentCol, Camera, SlotCol, Status, WorldCol

SUBFRAMES = 3
"""Pictures a simulation step; states in between are interpolated and rendered."""
COMMAND_SCALE_M = 100.0
PLAN = (80, 230, 120)
HEIGHT = 432
WIDTH = 640


def film(sim: Any, policy: Any, seconds: float) -> Iterator[Image.Image]:
    """Follow one agent after another for `seconds`.

    Args:
        sim: A `terapixel_sim.Simulator` of one world with cameras.
        policy: Drives every agent on the sensors' keys; where its head gives a `trajectory`, that is drawn.
        seconds: How much simulated time to show; an episode that ends is followed by another one.

    Yields:
        RGB pictures of one size, `SUBFRAMES / sim.dt_s` a second.
    """
    views = [BirdsEye(m, size_px=HEIGHT) for m in sim.maps]
    batch, ego = sim.sensors(sim.reset()), -1
    for _ in range(math.ceil(seconds / sim.dt_s)):
        live = sim.state["slots"][0, :, SlotCol.STATUS] == Status.LIVE
        if bool(sim.world_done[0]):
            batch, ego = sim.sensors(sim.reset()), -1
            live = sim.state["slots"][0, :, SlotCol.STATUS] == Status.LIVE
        if ego < 0 or not bool(live[ego]):
            ego = _longest_way(sim, live)
        old, goals, plan = sim.state.clone(), _goals(sim, batch, ego), planned(sim, policy, batch, ego)
        with torch.no_grad():
            action = policy.act(batch, greedy=True)
        batch = sim.sensors(sim.step(action))
        for k in range(SUBFRAMES):
            yield picture(sim, views, between(old, sim.state, k / SUBFRAMES), ego, plan, goals)


def picture(
    sim: Any,
    views: list[BirdsEye],
    state: TensorDict,
    ego: int,
    plan: FloatArray | None = None,
    goals: FloatArray | None = None,
) -> Image.Image:
    """Cameras on the left, the bird's eye on the right, of one agent of a state of one world."""
    agents = state["agents"][0].double().numpy()
    slots = state["slots"][0].long().numpy()
    pose = agents[ego, [AgentCol.X, AgentCol.Y, AgentCol.YAW]]
    view = views[int(state["world"][0, WorldCol.MAP])]
    above = view.draw(pose, agents, slots, ego, plan, goals)
    images = sim.render(state)["camera"]
    tiles = []
    for name, camera in sim.cameras.cameras.items():
        scale = min(WIDTH / camera.width, HEIGHT / len(sim.cameras.cameras) / camera.height)
        pixels = images[name][0, ego, -3:].permute(1, 2, 0).numpy()
        tile = Image.fromarray(pixels).resize(
            (int(camera.width * scale), int(camera.height * scale)), Image.Resampling.NEAREST
        )
        if plan is not None:
            pen = ImageDraw.Draw(tile)
            for piece in project(plan, agents[ego], camera):
                pen.line([(u * scale, v * scale) for u, v in piece], fill=PLAN, width=3)
        tiles.append(tile)
    canvas = Image.new("RGB", (WIDTH + HEIGHT, HEIGHT), (18, 18, 20))
    y = (HEIGHT - sum(t.height for t in tiles)) // 2
    for tile in tiles:
        canvas.paste(tile, ((WIDTH - tile.width) // 2, y))
        y += tile.height
    canvas.paste(above, (WIDTH, 0))
    return canvas


def planned(sim: Any, policy: Any, batch: TensorDict, ego: int) -> FloatArray | None:
    """The path that a policy plans for agent `ego` from its rear axle on, [9, 2] in the world frame, if it has one."""
    if not hasattr(policy, "head"):
        return None
    with torch.no_grad():
        outputs = policy.head(policy.encode(batch))
    if "trajectory" not in outputs:
        return None
    x, y, yaw = sim.rear_axle()[0, ego].tolist()
    points = outputs["trajectory"][0, ego, :, :2].double().numpy()
    c, s = math.cos(yaw), math.sin(yaw)
    path: FloatArray = np.vstack([[[0.0, 0.0]], points]) @ np.array([[c, s], [-s, c]]) + np.array([x, y])
    return path


def project(points: FloatArray, row: FloatArray, camera: Camera) -> list[list[tuple[float, float]]]:
    """Pixels of a path on the road [n, 2] (world frame) in an agent's camera, cut where it is not ahead of it."""
    s = np.linspace(0, len(points) - 1, 8 * len(points))
    dense = np.column_stack([np.interp(s, np.arange(len(points)), points[:, k]) for k in (0, 1)])
    c, sn = math.cos(row[AgentCol.YAW]), math.sin(row[AgentCol.YAW])
    offset = dense - row[[AgentCol.X, AgentCol.Y]]
    vehicle = np.column_stack(
        [c * offset[:, 0] + sn * offset[:, 1], c * offset[:, 1] - sn * offset[:, 0], np.zeros(len(s))]
    )
    seen = (vehicle - np.array([camera.x_m, camera.y_m, camera.z_m])) @ _camera_axes(camera).T
    fx, fy, cx, cy = camera.intrinsics()
    pieces: list[list[tuple[float, float]]] = [[]]
    for x, y, z in seen:
        if z > 0.3:
            pieces[-1].append((cx + fx * x / z, cy + fy * y / z))
        elif pieces[-1]:
            pieces.append([])
    return [p for p in pieces if len(p) > 1]


def _camera_axes(camera: Camera) -> FloatArray:
    """Rows: the camera's right, down and forward in the vehicle frame."""
    yaw, pitch, roll = (math.radians(a) for a in (camera.yaw_deg, camera.pitch_deg, camera.roll_deg))
    forward = np.array([math.cos(yaw) * math.cos(pitch), math.sin(yaw) * math.cos(pitch), math.sin(pitch)])
    level = np.array([math.sin(yaw), -math.cos(yaw), 0.0])
    below = np.cross(forward, level)
    right = math.cos(roll) * level + math.sin(roll) * below
    return np.stack([right, np.cross(forward, right), forward])


def between(old: TensorDict, new: TensorDict, share: float) -> TensorDict:
    """The old state with every agent moved `share` of the way to its new pose."""
    out = old.clone()
    a, b = old["agents"], new["agents"]
    for column in (AgentCol.X, AgentCol.Y, AgentCol.Z):
        out["agents"][..., column] = torch.lerp(a[..., column], b[..., column], share)
    turn = b[..., AgentCol.YAW] - a[..., AgentCol.YAW]
    turn = torch.atan2(turn.sin(), turn.cos())
    out["agents"][..., AgentCol.YAW] = a[..., AgentCol.YAW] + share * turn
    return out


def write_mp4(path: Path, pictures: Iterable[Image.Image], pictures_per_second: float) -> int:
    """Write pictures of one size as a film (H.264 where the encoder is there, else MPEG-4) and return their number.

    Raises:
        ValueError: There is no picture.
    """
    codec = "libx264" if "libx264" in av.codecs_available else "mpeg4"
    number = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=Fraction(pictures_per_second).limit_denominator(1000))
        stream.pix_fmt = "yuv420p"
        for image in pictures:
            if number == 0:  # the size is fixed once the encoder runs, and must be even
                stream.width, stream.height = image.width - image.width % 2, image.height - image.height % 2
            for packet in stream.encode(av.VideoFrame.from_image(image)):
                container.mux(packet)
            number += 1
        if number == 0:
            raise ValueError(f"{path}: there is no picture to write")
        for packet in stream.encode():
            container.mux(packet)
    return number


def _goals(sim: Any, batch: TensorDict, ego: int) -> FloatArray:
    """The agent's next goals in the world frame, [n, 2]."""
    row = sim.state["agents"][0, ego].double().numpy()
    points = batch["command"][0, ego][batch["command_mask"][0, ego]].double().numpy() * COMMAND_SCALE_M
    c, s = math.cos(row[AgentCol.YAW]), math.sin(row[AgentCol.YAW])
    goals: FloatArray = points @ np.array([[c, s], [-s, c]]) + row[[AgentCol.X, AgentCol.Y]]
    return goals


def _longest_way(sim: Any, live: torch.Tensor) -> int:
    agents = sim.state["agents"][0]
    left = agents[:, AgentCol.ROUTE_LENGTH] - agents[:, AgentCol.PROGRESS]
    return int(left.masked_fill(~live, -1.0).argmax())

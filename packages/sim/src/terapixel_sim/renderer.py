"""Draws what every agent's cameras see: other agents' boxes, the road, its paint, terrain and sky.

Rules of the picture:

- Boxes of agents that are LIVE, STOPPED or TIMED_OUT are drawn, never the viewer's own. A box that contains the
  camera or comes within 0.1 m of it is not drawn in that view (agents may touch), so it never fills the picture from
  inside.
- A slot without a camera (EMPTY, REMOVED, FINISHED) gets a black image.
- The ground is the tangent plane of the viewer's own lane: it tilts by `AgentCol.GRADE` along the heading and not
  across it. Another box stands at its own height above that plane (so it floats over a sag and sinks behind a crest),
  upright to the plane; the earlier of two frames uses the present grade. Distances on a grade count horizontally.
- A view lists the 64 nearest boxes that its frustum may hold; `overflow` counts those left out.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from . import runtime
from .camera import Appearance, Camera, CameraRig
from .ground import FULL, Ground, Surface
from .kernels import render_setup, render_shade
from .kernels.render_math import BoxF, BoxI, CameraF, CameraI, ViewF, ViewI
from .layout import AgentCol, SlotCol, WorldCol
from .taps import ground_taps, pixel_rays

BOX_CAPACITY = 64
"""Boxes a view can list."""
LIMIT = 2**31


class Renderer:
    """Draws views of many worlds on the grounds of their maps.

    Args:
        ground: of all maps that `WorldCol.MAP` may name.
        rig: the cameras on every agent.
        device: "cpu" or "cuda", the one of `ground`.

    Raises:
        ValueError: a camera at or below the road, or a ground on another device.
    """

    def __init__(self, ground: Ground, rig: CameraRig, device: str = "cpu") -> None:
        runtime.start(device)
        if ground.tiles.device.type != device:
            raise ValueError(f"ground: expected tensors on {device}, got {ground.tiles.device.type}")
        for name, camera in rig.cameras.items():
            if camera.z_m <= 0:
                raise ValueError(f"rig.cameras.{name}.z_m: expected a height above the road, got {camera.z_m!r}")
        self.ground, self.rig, self.device = ground, rig, device
        self.overflow = torch.zeros(0, dtype=torch.int32, device=device)
        """i32 [cameras, W, A, F]: boxes that found no place in each view's list when it was last drawn."""
        self._chunks = {name: _chunk(camera.width) for name, camera in rig.cameras.items()}
        self._constants = {
            name: tuple(t.to(device) for t in _camera_tensors(camera, rig, self._chunks[name]))
            for name, camera in rig.cameras.items()
        }
        self._view_f = torch.zeros(0, dtype=torch.float32, device=device)
        self._view_i = torch.zeros(0, dtype=torch.int32, device=device)
        self._all = torch.zeros(0, dtype=torch.uint8, device=device)

    def allocate(self, num_worlds: int, num_agents: int) -> dict[str, torch.Tensor]:
        """Black images, u8 [W, A, 3 F, height, width] for each camera.

        Raises:
            ValueError: a size below 1, or more elements than 32-bit indices reach.
        """
        if num_worlds < 1 or num_agents < 1:
            raise ValueError(f"num_worlds, num_agents: expected at least 1, got {num_worlds}, {num_agents}")
        shapes = {name: self._shape(name, num_worlds, num_agents) for name in self.rig.cameras}
        for name, shape in shapes.items():
            if math.prod(shape) >= LIMIT:
                raise ValueError(
                    f"rig.cameras.{name}: images of shape {shape} have {math.prod(shape)} elements, "
                    "and 2^31 is the limit; use fewer worlds or agents, or a smaller image"
                )
        return {name: torch.zeros(shape, dtype=torch.uint8, device=self.device) for name, shape in shapes.items()}

    def render(
        self,
        agents: torch.Tensor,
        slots: torch.Tensor,
        world: torch.Tensor,
        out: dict[str, torch.Tensor],
        mask: torch.Tensor | None = None,
    ) -> None:
        """Draw the views of all agents into `out`, the oldest frame first.

        Args:
            agents: f32 [W, A, columns], see `layout`.
            slots: i32 [W, A, columns].
            world: i32 [W, len(WorldCol)]; MAP counts the maps of the ground.
            out: what `allocate` returned, or the like.
            mask: u8 or bool [W]; worlds where it is 0 keep their images. None draws all.

        Raises:
            ValueError: a tensor of another shape, type or device, or not contiguous.
        """
        worlds, num_agents = self._check(agents, slots, world, out, mask)
        frames, views = self.rig.frames, worlds * num_agents * self.rig.frames
        capacity = max(1, min(num_agents - 1, BOX_CAPACITY))
        self._reserve(worlds, num_agents, capacity)
        chosen = self._all[:worlds] if mask is None else mask.view(torch.uint8)
        pad = 1 if self.device == "cuda" else runtime.padding(views)
        for index, (name, camera) in enumerate(self.rig.cameras.items()):
            camera_f, camera_i = self._constants[name]
            size = (camera.width, camera.height)
            render_setup.setup_views(
                worlds, num_agents, pad, capacity, frames, *size, agents.shape[2], slots.shape[2],
                agents.view(-1), slots.view(-1), world.view(-1), chosen, camera_f, camera_i, self.ground.tiles,
                self._view_f, self._view_i, self.overflow[index].view(-1),
            )  # fmt: skip
            tensors = (self._view_f, self._view_i, camera_f, camera_i, self.ground.tiles, self.ground.texels)
            image, chunk, hazy = out[name].view(-1), self._chunks[name], self.rig.appearance.haze_m > 0
            if self.device == "cuda":
                render_shade.shade_pixels(views, capacity, *size, chunk, hazy, *tensors, image)
            else:
                packed = camera.width % 8 == 0 and image.data_ptr() % 8 == 0
                words = image.view(torch.int64) if packed else image
                render_shade.shade_rows(views, capacity, *size, chunk, packed, hazy, *tensors, words)

    def _shape(self, name: str, worlds: int, agents: int) -> tuple[int, int, int, int, int]:
        camera = self.rig.cameras[name]
        return worlds, agents, 3 * self.rig.frames, camera.height, camera.width

    def _reserve(self, worlds: int, agents: int, capacity: int) -> None:
        views = worlds * agents * self.rig.frames
        floats = views * (ViewF.SIZE + capacity * BoxF.SIZE)
        if floats >= LIMIT:
            raise ValueError(
                f"agents: {views} views of {capacity} boxes pass the limit of 2^31 numbers; use fewer worlds"
            )
        if self._view_f.numel() < floats:
            self._view_f = torch.zeros(floats, dtype=torch.float32, device=self.device)
        ints = views * (ViewI.SIZE + capacity * BoxI.SIZE)
        if self._view_i.numel() < ints:
            self._view_i = torch.zeros(ints, dtype=torch.int32, device=self.device)
        shape = (len(self.rig.cameras), worlds, agents, self.rig.frames)
        if self.overflow.shape != shape:
            self.overflow = torch.zeros(shape, dtype=torch.int32, device=self.device)
        if len(self._all) < worlds:
            self._all = torch.ones(worlds, dtype=torch.uint8, device=self.device)

    def _check(
        self,
        agents: torch.Tensor,
        slots: torch.Tensor,
        world: torch.Tensor,
        out: dict[str, torch.Tensor],
        mask: torch.Tensor | None,
    ) -> tuple[int, int]:
        if agents.ndim != 3 or agents.shape[2] < AgentCol.CONDITION:
            raise ValueError(f"agents: expected shape [W, A, {AgentCol.ROUTE} or more], got {tuple(agents.shape)}")
        worlds, num_agents, columns = agents.shape
        if slots.ndim != 3 or slots.shape[2] <= SlotCol.PREV_STATUS:
            raise ValueError(f"slots: expected shape [W, A, {SlotCol.ROUTE} or more], got {tuple(slots.shape)}")
        expected = {
            "agents": (agents, torch.float32, (worlds, num_agents, columns)),
            "slots": (slots, torch.int32, (worlds, num_agents, slots.shape[2])),
            "world": (world, torch.int32, (worlds, len(WorldCol))),
        }
        for name in self.rig.cameras:
            if name not in out:
                raise ValueError(f"out: expected an image for camera {name!r}, got {', '.join(out) or 'none'}")
            expected[f"out.{name}"] = (out[name], torch.uint8, self._shape(name, worlds, num_agents))
        if mask is not None:
            kind = mask.dtype if mask.dtype == torch.bool else torch.uint8
            expected["mask"] = (mask, kind, (worlds,))
        for name, (tensor, dtype, shape) in expected.items():
            if tensor.shape != shape or tensor.dtype != dtype:
                raise ValueError(f"{name}: expected {dtype} {shape}, got {tensor.dtype} {tuple(tensor.shape)}")
            if not tensor.is_contiguous() or tensor.device.type != self.device:
                raise ValueError(
                    f"{name}: expected a contiguous tensor on {self.device}, got one on {tensor.device.type}"
                )
            if tensor.numel() >= LIMIT or tensor.numel() == 0:
                raise ValueError(f"{name}: expected 1 to 2^31 - 1 elements, got {tensor.numel()}")
        return worlds, num_agents


def _chunk(width: int) -> int:
    """Pixels of a row drawn at a time. Chunks of 64 are fastest even where a row's last one is only half used."""
    return 32 if width <= 32 else 64


def _field(rgb: np.ndarray) -> np.ndarray:
    """Colours [..., 3] in the kernels' 10-bit fields."""
    c = np.rint(np.clip(rgb, 0, 255)).astype(np.int32)
    return c[..., 0] | c[..., 1] << 10 | c[..., 2] << 20


def _texel_colours(look: Appearance) -> np.ndarray:
    """Colour of each of the 256 texel values [256, 3]."""
    over, under = np.zeros((8, 3)), np.zeros((8, 3))
    for surface, top, beneath in (
        (Surface.TERRAIN, look.terrain, look.terrain),
        (Surface.ROAD, look.road, look.terrain),
        (Surface.WHITE, look.white, look.road),
        (Surface.YELLOW, look.yellow, look.road),
        (Surface.EDGE, look.edge, look.road),
        (Surface.VERGE, look.edge, look.terrain),
        (Surface.SKY, look.sky, look.sky),
    ):
        over[surface], under[surface] = top, beneath
    cover = ((np.arange(256) & FULL) / FULL)[:, None] ** 2
    kind = np.arange(256) >> 5
    return under[kind] * (1 - cover) + over[kind] * cover


def _camera_tensors(camera: Camera, rig: CameraRig, chunk: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The float and integer constants of a camera, see `CameraF` and `CameraI`."""
    look = rig.appearance
    taps = ground_taps(camera, rig.far_m, chunk)
    fx, fy, cx, cy = camera.intrinsics()
    rays = pixel_rays(camera)
    sides = [-cx / fx, (camera.width - cx) / fx, -cy / fy, (camera.height - cy) / fy]
    values: dict[CameraF, float | list[float] | np.ndarray] = {
        CameraF.MOUNT: camera.mount(),
        CameraF.RIGHT: camera.axes().ravel(),
        CameraF.FX: [fx, fy, cx, cy],
        CameraF.D0: np.concatenate(rays),
        CameraF.FAR: rig.far_m,
        CameraF.W0: [-ray[2] / camera.z_m for ray in rays],
        CameraF.WFAR: 1 / rig.far_m,
        CameraF.LEFT: sides,
        CameraF.NORMS: [math.hypot(1, t) for t in sides],
        CameraF.HAZE: 1 / (look.haze_m * math.log(2)) if look.haze_m > 0 else 0.0,
        CameraF.SKY: list(look.sky),
    }
    floats = np.zeros(CameraF.SIZE, np.float32)
    for at, value in values.items():
        row = np.atleast_1d(np.asarray(value, float))
        floats[at : at + len(row)] = row
    ints = np.zeros(CameraI.SIZE, np.int32)
    ints[CameraI.LUT : CameraI.LUT + 256] = _field(_texel_colours(look))
    shade = np.array([*look.face_shade, min(look.face_shade)])
    ints[CameraI.FACE : CameraI.FACE + 6] = _field(shade[:, None] * np.array(look.car))
    ints[CameraI.SKY] = _field(np.array(look.sky))
    heads = taps.heads.copy()
    heads[..., 1] += CameraF.SIZE
    return (
        torch.from_numpy(np.concatenate([floats, taps.values])),
        torch.from_numpy(np.concatenate([ints, heads.ravel()])),
    )

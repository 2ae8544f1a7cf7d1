"""Show what an agent sees: a picture, or a film when OUT ends in .mp4.

python tools/render.py OUT.png --map grid:0 --fov 115 --width 192 --height 96
python tools/render.py OUT.mp4 --map town.xodr --policy terapixel_student:load_policy --path student.pt
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from _parts import ConfigError, Part
from _run import cli
from _video import SUBFRAMES, film, write_mp4
from terapixel_sim import Camera, CameraRig, SimConfig, Simulator

PICTURE_AT_S = 2.0
"""Simulated time at which a single picture is taken."""


def tool(argv: Sequence[str]) -> None:
    """Write one picture or film."""
    words = _parser().parse_args(argv)
    out = Path(words.out)
    if out.suffix not in (".png", ".jpg", ".mp4"):
        raise ConfigError(f"OUT: expected a name ending in .png, .jpg or .mp4, got {out}")
    camera = Camera(width=words.width, height=words.height, fov_deg=words.fov)
    sim = Simulator(
        SimConfig(infraction="stop", early_reset=1.0), [words.map], num_worlds=1, num_agents=words.agents,
        cameras=CameraRig(cameras={"front": camera}), seed=words.seed,
    )  # fmt: skip
    options = {"class": words.policy} | ({} if words.path is None else {"path": words.path})
    policy = Part.from_node(options, "--policy").build(needs=("act",))
    if out.suffix == ".mp4":
        write_mp4(out, film(sim, policy, words.seconds), SUBFRAMES / sim.dt_s)
    else:
        number = int(PICTURE_AT_S / sim.dt_s) * SUBFRAMES
        picture = next(islice(film(sim, policy, PICTURE_AT_S + sim.dt_s), number, None))
        out.parent.mkdir(parents=True, exist_ok=True)
        picture.save(out)
    print(out)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", help="file to write: .png, .jpg or .mp4")
    parser.add_argument("--map", default="grid:0", help="grid:SEED, curvy:SEED, or a .xodr or .npz file")
    parser.add_argument("--agents", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=int, default=96, help="of the camera [px]")
    parser.add_argument("--height", type=int, default=48, help="of the camera [px]")
    parser.add_argument("--fov", type=float, default=115.0, help="of the camera, horizontal [degrees]")
    parser.add_argument(
        "--policy", default="_policies:ConstantVelocity", help="who drives: package.module:Name or file.py:Name"
    )
    parser.add_argument("--path", help="the policy's checkpoint")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a film")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    return cli(tool, argv)


if __name__ == "__main__":
    sys.exit(main())

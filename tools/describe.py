"""Print every column of every observation with its unit, scale, range and meaning.

python tools/describe.py [LEAF ...]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import groupby

from _run import cli
from terapixel_sim.observation import Column, describe


def tool(argv: Sequence[str]) -> None:
    """Print the tables of the leaves that are named, or of all."""
    leaves = {leaf: list(columns) for leaf, columns in groupby(describe(), lambda c: c.leaf)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("leaves", metavar="LEAF", nargs="*", help=f"some of {', '.join(leaves)}")
    chosen = parser.parse_args(argv).leaves or list(leaves)
    for leaf in chosen:
        if leaf not in leaves:
            raise ValueError(f"LEAF: expected some of {', '.join(leaves)}, got {leaf}")
        print("\n".join(table(leaf, leaves[leaf])), end="\n\n")


def table(leaf: str, columns: Sequence[Column]) -> list[str]:
    """One line a column. A column holds value / scale; the range is that of the value, in its unit."""
    lines = [f"{leaf}, {len(columns)} columns", f"{'#':>4} {'name':14} {'unit':6} {'scale':>9} {'range':>18}  meaning"]
    for i, c in enumerate(columns):
        # scale 0: the range itself is mapped to [-1, 1]
        scale = f"{c.scale:g}" if c.scale else "to [-1, 1]"
        lines.append(
            f"{i:4} {c.name:14} {c.unit or '-':6} {scale:>9} {f'{c.low:.4g} .. {c.high:.4g}':>18}  {c.meaning}"
        )
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool; returns the exit status."""
    return cli(tool, argv)


if __name__ == "__main__":
    sys.exit(main())

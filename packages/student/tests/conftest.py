import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for pixel_points, which the README's lines import too

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))  # for pixel_points, which the README's lines import too
torch.set_num_threads(1)  # the tensors here are too small for more

import os
import sys
from pathlib import Path

os.environ.setdefault("TERAPIXEL_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))  # for the helper modules beside the tests

import torch

torch.set_num_threads(1)

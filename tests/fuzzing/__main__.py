"""The fuzzer as a command: `python tests/fuzzing --attacks statuses --runs 100`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

# Python puts the folder that it runs on the path; the modules are those of its package.
sys.path[0] = str(Path(__file__).resolve().parents[1])
sys.exit(importlib.import_module("fuzzing.fuzz").main())

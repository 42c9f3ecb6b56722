"""What compressors without a language model reach, decoded and compared before a size is shown.

Start with `run_baselines`; `BASELINES` lists them; `run_baselines_in_chunks` repeats the paper's set-up.
"""

from lmgc_core.baselines.catalogue import BASELINES, PAPER_IDS
from lmgc_core.baselines.contract import Baseline, BaselineResult
from lmgc_core.baselines.run import best_baseline, run_baselines, run_baselines_in_chunks, run_each, run_one

__all__ = [
    "BASELINES",
    "PAPER_IDS",
    "Baseline",
    "BaselineResult",
    "best_baseline",
    "run_baselines",
    "run_baselines_in_chunks",
    "run_each",
    "run_one",
]

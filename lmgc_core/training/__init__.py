"""Gradients made here: small networks trained for a few steps, and a recorder for anyone's own training loop.

`generate` trains one of the networks and hands back what it recorded; `record_gradients` stands in
somebody else's script. torch is imported by the functions that need it, so importing this is cheap.
"""

from lmgc_core.training.config import GenerateConfig
from lmgc_core.training.datasets import DATA
from lmgc_core.training.networks import NETWORKS
from lmgc_core.training.record_file import save_record
from lmgc_core.training.recorder import GradientRecorder, record_gradients
from lmgc_core.training.train import Recorded, StepResult, generate, training_steps

__all__ = [
    "DATA",
    "NETWORKS",
    "GenerateConfig",
    "GradientRecorder",
    "Recorded",
    "StepResult",
    "generate",
    "record_gradients",
    "save_record",
    "training_steps",
]

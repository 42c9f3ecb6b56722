"""Priors beside the language model: adaptive counts, and both mixed; see `segment_prior`."""

from lmgc_core.priors.segment_prior import SegmentPrior, make_prior, run_segment

__all__ = ["SegmentPrior", "make_prior", "run_segment"]

"""The errors a user can cause or meet, each one line that says what to do.

The command line and the app catch `LmgcError` alone and show its text; anything else is a bug and
stays loud. A message names what happened, the value, what is allowed, and what to do.
"""


class LmgcError(Exception):
    """Base of every expected failure."""


class InvalidSetting(LmgcError):
    """A setting, or a combination of settings, that does not fit; names the tensor where one is at fault."""


class UnsupportedInput(LmgcError):
    """A file or array that cannot be used as a gradient."""


class TruncatedContainer(LmgcError):
    """An archive that ends before its header says it should."""


class CorruptContainer(LmgcError):
    """An archive whose content contradicts its checksums or itself."""


class IncompatibleContainer(LmgcError):
    """An archive made by another model, tokenizer or a newer format."""


class NotReversible(LmgcError):
    """A tokenizer or spelling that would not give the same text back."""


class ModelUnavailable(LmgcError):
    """A model that is not here, cannot be fetched, or does not fit."""


class Cancelled(LmgcError):
    """Work that its owner asked to stop; what was done before is kept by the caller."""


class RunsUnavailable(LmgcError):
    """Results on disk that cannot be kept, found or read; what was computed is not affected."""

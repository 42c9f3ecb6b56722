"""`load_or_measure`: a question's report, found again if it was kept, measured and kept otherwise.

The store never stands in the way: where it cannot be used, the run is measured all the same and a note says why the
result was not kept. Only whole runs are kept; one that was stopped is measured again from its start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lmgc_core.checkpoint import Checkpoint
from lmgc_core.codec import Progress, measure
from lmgc_core.errors import RunsUnavailable
from lmgc_core.language_model import LanguageModel, known_fingerprint
from lmgc_core.language_model.cache import cache_folder
from lmgc_core.question import Question, question_id
from lmgc_core.report import Report
from lmgc_core.run_index import KeptRun
from lmgc_core.store import RunStore


@dataclass(frozen=True, slots=True)
class Answer:
    """A report and where it came from.

    Attributes:
        report: whole; its time is that of the run that was measured.
        id: of the question.
        kept_at: when the result was kept, seconds since 1970, if it was found again; None if it was measured now.
        note: one line if something could not be read or kept; "" otherwise.
    """

    report: Report
    id: str
    kept_at: float | None = None
    note: str = ""


def load_or_measure(
    question: Question,
    load: Callable[[], LanguageModel],
    *,
    title: str,
    source: str,
    again: bool = False,
    resume: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Answer:
    """The question's report.

    Args:
        question: what is asked.
        load: gives the model; called only when there is something to measure.
        title, source: of the gradient, for the list of runs.
        again: measure even if the result is kept; the new one takes its place.
        resume: go on with the finished segments of a run that was killed. Runs over whole gradients save them anyway.
        on_progress, should_stop: as for `measure`.

    Raises:
        LmgcError: as `measure` and `load` do; never because of the store.
    """
    notes: list[str] = []
    if not again:
        found = find_kept(question, notes.append)
        if found is not None:
            return Answer(found[1], question.id, found[0].made_at)
    model = load()
    saved = unfinished(question, model.fingerprint) if resume or question.limit == 0 else None
    if saved is not None and not resume:
        saved.clear()
    report = measure(
        question.gradient,
        model,
        question.config,
        limit=question.limit,
        seed=question.seed,
        options=question.options,
        on_progress=on_progress,
        should_stop=should_stop,
        saved=saved,
    )
    if saved is not None:
        saved.clear()
    keep(question, report, title=title, source=source, tell=notes.append)
    return Answer(report, question.id, None, " ".join(dict.fromkeys(notes)))


def unfinished(question: Question, fingerprint: str) -> Checkpoint:
    """Where the finished segments of a run lie as long as it is not whole; passes of another size would differ."""
    facts = {**question.facts, "fingerprint": fingerprint, "batch_size": question.options.batch_size}
    return Checkpoint(cache_folder() / "unfinished" / question_id("segments", facts))


def find_kept(question: Question, tell: Callable[[str], None] | None = None) -> tuple[KeptRun, Report] | None:
    """The kept answer; None where there is none, `tell` being given the line where one could not be read."""
    try:
        return RunStore().find(question, lambda: known_fingerprint(question.config.model))
    except RunsUnavailable as error:
        if tell is not None:
            tell(f"{error}.")
        return None


def keep(question: Question, report: Report, *, title: str, source: str, tell: Callable[[str], None]) -> None:
    """Keeps a whole report; `tell` is given the line where that failed."""
    try:
        RunStore().keep(question, report, title=title, source=source)
    except RunsUnavailable as error:
        tell(f"{error}.")

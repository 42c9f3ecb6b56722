"""The list of kept runs: filtered, as a table, and the choice of some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd
import streamlit as st

from lmgc_core.run_index import KeptRun
from pages.ui import state
from pages.ui.format import LOWER, counted, percent, plain, size

OWN_SETTINGS = "own"


@dataclass(frozen=True, slots=True)
class Filter:
    """What a run has to be to stay in the list; empty is anything."""

    words: str = ""
    titles: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    presets: tuple[str, ...] = ()

    def takes(self, row: KeptRun) -> bool:
        """Whether the run stays: every word somewhere in what the table says, and one of the chosen values each."""
        text = " ".join([row.id, *map(str, table_row(row).values())]).casefold()
        return all(word in text for word in self.words.casefold().split()) and all(
            not chosen or value in chosen
            for chosen, value in (
                (self.titles, row.title),
                (self.models, str(row.summary["model"]["id"])),
                (self.presets, preset_of(row)),
            )
        )


def preset_of(row: KeptRun) -> str:
    """The preset's name; "own" for settings without one."""
    name = str(row.summary["settings"]["preset"])
    return OWN_SETTINGS if name == "none" else name


def when(row: KeptRun) -> str:
    """The minute in which a run was kept, by the server's clock."""
    return datetime.fromtimestamp(row.made_at).strftime("%Y-%m-%d %H:%M")


def blocks(row: KeptRun) -> str:
    """How much was measured."""
    sample = row.summary["sample"]
    return "whole" if sample["complete"] else f"{sample['n_blocks']} of {sample['n_blocks_total']} blocks"


def table_row(row: KeptRun) -> dict[str, object]:
    """A run as the table shows it."""
    totals, settings = row.summary["totals"], row.summary["settings"]
    rate = totals["compression_rate"]
    return {
        "when": when(row),
        "gradient": row.title,
        "% of raw": None if rate is None else 100 * rate,
        "bits per parameter": totals["bits_per_parameter"],
        "tokens per parameter": totals["tokens_per_parameter"],
        "preset": preset_of(row),
        "prior": settings["prior"],
        "lossy step": settings["transform"],
        "measured": blocks(row),
        "model": row.summary["model"]["id"],
        "on disk": size(row.n_bytes),
    }


def label(row: KeptRun) -> str:
    """A run in one line, told from all others by the start of its id."""
    settings = row.summary["settings"]
    words = [preset_of(row), settings["prior"], *([settings["transform"]] if settings["transform"] != "none" else [])]
    rate = percent(row.summary["totals"]["compression_rate"])
    return f"{row.title} · {' '.join(words)} · {blocks(row)} · {rate} · {row.id[:4]}"


def filter_form(rows: Sequence[KeptRun]) -> Filter:
    """What to look for; nothing of it enters the address, since titles may be names of files."""
    words, titles, models, presets = st.columns([3, 3, 2, 2])

    def several(
        column: st.delta_generator.DeltaGenerator, text: str, key: str, found: Sequence[str]
    ) -> tuple[str, ...]:
        options = list(dict.fromkeys([*state.get(key), *sorted(set(found))]))
        return tuple(column.multiselect(text, options, key=key, placeholder="all"))

    return Filter(
        words.text_input("Find", key=state.RUNS_WORDS, placeholder="words, an id, a date"),
        several(titles, "Gradient", state.RUNS_TITLES, [row.title for row in rows]),
        several(models, "Model", state.RUNS_MODELS, [str(row.summary["model"]["id"]) for row in rows]),
        several(presets, "Preset", state.RUNS_PRESETS, [preset_of(row) for row in rows]),
    )


def choose(rows: Sequence[KeptRun]) -> list[KeptRun]:
    """The table, and the runs chosen in it or by name."""
    known: Mapping[str, KeptRun] = {row.id: row for row in rows}

    def ticked() -> None:
        event = st.session_state.get(state.RUNS_TABLE)
        picked = [i for i in event["selection"]["rows"] if i < len(rows)] if event else []
        state.put(state.CHOSEN_RUNS, [rows[i].id for i in picked])

    st.dataframe(
        pd.DataFrame([table_row(row) for row in rows]),
        hide_index=True,
        key=state.RUNS_TABLE,
        on_select=ticked,
        selection_mode="multi-row",
        column_config={
            "gradient": st.column_config.TextColumn(width="medium"),
            "% of raw": st.column_config.NumberColumn(format="%.2f", help=LOWER),
            "bits per parameter": st.column_config.NumberColumn(format="%.2f", help=LOWER),
            "tokens per parameter": st.column_config.NumberColumn(format="%.2f", help="Fewer is faster."),
        },
        placeholder="–",
        alt=f"Table of {counted(len(rows), 'kept run')}, the newest first",
    )
    if state.CHOSEN_RUNS not in st.session_state:
        state.put(state.CHOSEN_RUNS, st.query_params.get(state.CHOSEN_RUNS, "").split(","))
    state.put(state.CHOSEN_RUNS, [run for run in state.get(state.CHOSEN_RUNS) if run in known])
    chosen = st.multiselect(
        "Chosen",
        list(known),
        key=state.CHOSEN_RUNS,
        format_func=lambda run: label(known[run]) if run in known else run,
        placeholder="Tick rows of the table, or choose here: one to open it, two to compare them",
    )
    if chosen:
        st.query_params[state.CHOSEN_RUNS] = ",".join(chosen)
    else:
        st.query_params.pop(state.CHOSEN_RUNS, None)
    return [known[run] for run in chosen if run in known]


def room_words(n_runs: int, n_bytes: int, limit: int, alone: bool) -> str:
    """What is kept, how much room there is, and what is listed here.

    >>> room_words(1, 2_000_000, 2_000_000_000, True).replace("\u202f", " ")
    '1 run listed. All kept runs take 2.00 MB of 2.00 GB; beyond that the oldest leave first.'
    """
    found = f"{counted(n_runs, 'run')} listed. All kept runs take {size(n_bytes)} of {size(limit)}; "
    found += "beyond that the oldest leave first." if limit else "nothing new is kept here."
    return found if alone else f"{found} Of other visitors, only runs on the bundled samples are listed."


def title_words(row: KeptRun) -> str:
    """A run's heading as Markdown."""
    return (
        f"**{plain(row.title)}** · {plain(preset_of(row))}, {plain(row.summary['settings']['prior'])} · {blocks(row)}"
    )

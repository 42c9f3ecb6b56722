"""Runs: what was measured here, to be opened again, compared, taken along or deleted."""

from __future__ import annotations

import streamlit as st

from lmgc_core.errors import LmgcError
from lmgc_core.store import RunStore
from pages.ui import kept_runs, state
from pages.ui.frame import page_frame, show_error
from pages.ui.kept_chosen import show_deletion, show_one, show_two
from pages.ui.kept_table import choose, filter_form, room_words

page_frame("Runs", "What has been measured here?")
try:
    store, rows = RunStore(), kept_runs.listed_rows()
    room = room_words(len(rows), store.n_bytes, store.limit, state.local_mode())
except LmgcError as error:
    show_error(error)
    st.stop()
if not rows:
    st.info("Nothing yet. A run on Analyze is kept here when it is done, with every token and its bits.")
    st.stop()
wanted = filter_form(rows)
found = [row for row in rows if wanted.takes(row)]
chosen = choose(found) if found else []
if not found:
    st.caption("No run fits; take something out of the filters.")
st.caption(room)
if len(chosen) == 1:
    show_one(chosen[0])
elif len(chosen) == 2:
    show_two(*chosen)
elif chosen:
    st.caption("Two can be compared; more can only be deleted together.")
if chosen:
    show_deletion(chosen)

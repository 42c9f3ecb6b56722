"""The arrows between modules go one way, and heavy libraries stand where they belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = sorted((ROOT / "lmgc_core").rglob("*.py"))
APP = [ROOT / "app.py", *sorted((ROOT / "pages").rglob("*.py"))]
HEAVY = {
    "torch",
    "transformers",
    "pandas",
    "pyarrow",
    "sklearn",
    "ml_dtypes",
    "safetensors",
    "tokenizers",
    "scipy",
    "ray",
}
HOMES = {
    "constriction": ("lmgc_core/coder.py", "lmgc_core/baselines/planes.py"),
    "transformers": ("lmgc_core/language_model/",),
    "ray": ("lmgc_core/ray_pool.py",),
    "plotly": ("pages/ui/",),
    "streamlit": ("app.py", "pages/"),
}
# The order of design: a module imports only from its own row or from rows above it.
ROWS = [
    ["errors", "whole_file", "wording", "word_pieces"],
    ["gradient", "settings"],
    ["slices"],
    [
        "samples", "files", "transforms", "priors", "layout", "float_text", "spelling",
        "punctuation", "text_reader", "serialization", "blocks", "remainder",
        "language_model", "coder", "guarded_rounding", "exact_scoring", "byte_fields", "baselines",
    ],
    ["runner"],
    ["ray_pool"],
    ["backend", "plan", "accounting", "question", "summary_html"],
    ["remainder_coding", "exception_lists", "step_frequencies", "segment_bins"],
    ["archive_plan", "segment_encoding", "segment_decoding", "archive_header"],
    ["container", "archive_model"],
    ["archive_decoding", "archive_segments"],
    ["archive_proof"],
    ["archive_report"],
    ["token_efficiency", "cells", "groups"],
    ["report"],
    ["prediction"],
    ["checkpoint"],
    ["report_html", "report_files", "controls", "codec", "archive"],
    ["run_index", "run_tables"],
    ["store"],
    ["kept"],
    ["compare", "lessons"],
    ["training", "grids", "compare_table"],
    ["options", "terminal"],
    ["archive_commands", "run_commands"],
    ["commands"],
    ["__main__"],
]  # fmt: skip


def module_name(path: Path) -> str:
    """The dotted name of a file of the library."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, top_level_only: bool = False) -> set[str]:
    """The dotted names that a file imports, those for type checkers left out."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped |= {id(inner) for inner in ast.walk(node)}
        if top_level_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            skipped |= {id(inner) for inner in ast.walk(node)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", CORE + APP, ids=lambda p: str(p.relative_to(ROOT)))
def test_libraries_stay_in_their_homes(path: Path) -> None:
    where = path.relative_to(ROOT).as_posix()
    for library, homes in HOMES.items():
        if library in {name.split(".")[0] for name in imported(path)}:
            assert where.startswith(homes), f"{where} imports {library}, which belongs in {homes}"


@pytest.mark.parametrize("path", CORE, ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_imports_stand_inside_functions(path: Path) -> None:
    heavy = {name.split(".")[0] for name in imported(path, top_level_only=True)} & HEAVY
    assert not heavy, f"{path.name} imports {heavy} when it is loaded"


def test_every_module_has_its_row() -> None:
    known = {name for row in ROWS for name in row}
    found = {module_name(p).split(".")[1] for p in CORE if "." in module_name(p)}
    assert found <= known, f"no row in the design for {sorted(found - known)}"


@pytest.mark.parametrize("path", CORE, ids=lambda p: str(p.relative_to(ROOT)))
def test_arrows_go_one_way(path: Path) -> None:
    row_of = {name: i for i, row in enumerate(ROWS) for name in row}
    name = module_name(path)
    if name == "lmgc_core":
        return
    own = name.split(".")[1]
    for target in imported(path):
        parts = target.split(".")
        if parts[0] == "lmgc_core" and len(parts) > 1 and parts[1] in row_of:
            assert row_of[parts[1]] <= row_of[own], f"{own} imports {parts[1]}, which stands above it"


def test_no_cycles() -> None:
    modules = {module_name(p): p for p in CORE}
    edges = {name: {t for t in imported(p) if t in modules and t != name} for name, p in modules.items()}
    # A package's parts may use each other; the lazy front of the library points everywhere by design.
    edges.pop("lmgc_core")
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, f"cycle: {' -> '.join([*trail, name])}"
        if name in done or name not in edges:
            return
        for target in edges[name]:
            if not name.startswith(f"{target}."):
                visit(target, (*trail, name))
        done.add(name)

    for name in edges:
        visit(name, ())


def test_importing_the_library_or_asking_for_help_is_light() -> None:
    code = (
        "import sys, lmgc_core, lmgc_core.__main__ as m; m.build_parser();"
        f"print(sorted({HEAVY | {'numpy'}!r} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert run.stdout.strip() == "[]", run.stdout + run.stderr

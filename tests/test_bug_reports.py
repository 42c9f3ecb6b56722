"""Public reports of what goes wrong with tensors and files elsewhere, each beside the test that holds here.

Reports are named by project and number; a test is "file::name".
"""

from __future__ import annotations

import importlib
import inspect as python_inspect

import pytest

COVERED: dict[int, tuple[str, ...]] = {
    # 1: memory layout and byte order (safetensors 825, 75, 307)
    1: (
        "test_files_numpy::test_logical_order_and_little_endian_bytes",
        "test_files_torch::test_views_tied_strided_and_expanded",
        "test_files_saving::test_torch_layouts_are_saved_in_logical_order",
    ),
    # 2: bfloat16 and float8 inside .npy (ml_dtypes 41, 216; keras 19091)
    2: (
        "test_files_numpy::test_a_lost_type_is_asked_for_and_then_believed",
        "test_files_numpy::test_a_lost_type_of_another_width_is_refused",
    ),
    # 3: empty tensors and tensors without axes (python-blosc2 290, 680; safetensors 442)
    3: (
        "test_files_contract::test_every_bit_comes_back",
        "test_files_hostile::test_content_that_is_no_gradient_is_named",
        "test_files_figures::test_figures_by_hand",
    ),
    # 4: objects, records and odd names in numpy files (obspy 2409, numpy 2215, 20033, 9265)
    4: (
        "test_files_numpy::test_members_that_are_no_numbers_are_named_and_others_load",
        "test_files_numpy::test_no_object_is_unpickled",
        "test_files_numpy::test_duplicate_names_are_an_error",
        "test_files_numpy::test_names_are_labels_and_nothing_is_written",
    ),
    # 5: headers that lie, and bombs (mlx 3365, numpy 22393, keras 23010, 23016)
    5: (
        "test_files_numpy::test_headers_that_lie",
        "test_files_numpy::test_members_whose_headers_lie",
        "test_files_numpy::test_the_declared_size_is_limited_and_not_the_ratio",
        "test_files_numpy::test_bytes_after_the_array_are_said",
        "test_files_memory::test_files_that_lie_cost_little",
    ),
    # 6: pickles in checkpoints (CVE-2025-32434, CVE-2026-24747)
    6: (
        "test_files_torch::test_no_foreign_code_runs",
        "test_files_torch::test_a_bare_pickle_is_never_opened",
        "test_files_torch::test_an_old_torch_is_not_used",
        "test_files_torch::test_storages_that_are_not_as_long_as_said",
        "test_files_torch::test_numpy_scalars_and_arrays_beside_tensors_load_without_numpys_code",
        "test_files_hostile::test_tar_files_are_refused",
    ),
    # 7: CUDA, Parameters, bfloat16, complex (pytorch 25925, 61925)
    7: (
        "test_bug_reports::test_tensors_saved_on_a_gpu_open_without_one",
        "test_files_torch::test_nested_names_are_joined_and_other_values_left_out",
        "test_files_torch::test_every_width_by_its_bytes",
        "test_files_torch::test_tensors_that_cannot_be_held_are_named_and_others_load",
    ),
    # 8: sparse and distributed tensors (pytorch 16667, 184750, 139949)
    8: (
        "test_files_torch::test_sparse_values_become_dense_and_equal_places_add_up",
        "test_files_torch::test_sparse_indices_outside_the_shape_are_refused",
        "test_files_torch::test_distributed_tensors_are_named_whatever_was_imported",
    ),
    # 9: views, tied and expanded tensors (pytorch 1995, 33101, 40157)
    9: (
        "test_files_torch::test_views_tied_strided_and_expanded",
        "test_files_torch::test_a_repeated_tensor_of_huge_shape_needs_leave",
    ),
    # 10: safetensors with BF16 and F8 (safetensors 598, 682, 839)
    10: (
        "test_files_safetensors::test_types_are_kept_and_never_widened",
        "test_files_safetensors::test_metadata_is_shown",
        "test_files_saving::test_every_type_is_kept_or_refused_by_name",
    ),
    # 11: hostile safetensors headers (safetensors 401, mlx 3363)
    11: (
        "test_files_safetensors::test_headers_that_lie",
        "test_files_safetensors::test_header_lengths_that_lie",
    ),
    # 12: not the file it says, or not the whole (diffusers 13559, transformers 46913)
    12: (
        "test_files_hostile::test_content_that_is_no_gradient_is_named",
        "test_files_contract::test_content_counts_and_not_the_name",
        "test_files_contract::test_a_file_cut_short_is_named",
        "test_files_safetensors::test_an_index_alone_names_each_missing_shard",
        "test_files_safetensors::test_no_shard_is_opened_outside_the_folder",
    ),
    # 13: raw files whose length does not fit (numpy 22656)
    13: ("test_files_text_and_raw::test_raw_lengths_that_do_not_fit",),
    # 14: csv (pandas 17154, 35365, 13159)
    14: (
        "test_files_text_and_raw::test_nearest_float64_as_python_reads_it",
        "test_files_text_and_raw::test_every_float64_survives_its_text",
        "test_files_text_and_raw::test_broken_tables_name_the_line",
        "test_files_text_and_raw::test_tables",
    ),
    # 15: NaN payloads (cpython 130452, 141042)
    15: (
        "test_files_contract::test_every_bit_comes_back",
        "test_files_numpy::test_logical_order_and_little_endian_bytes",
        "test_files_figures::test_masks_agree_with_the_values_of_every_16_bit_pattern",
    ),
    # 16: denormals, -0.0, infinities (CTranslate2 1018, numpy 20895, duckdb 10335)
    16: ("test_files_figures::test_denormals_are_no_zeros_even_where_the_process_flushes_them",),
    # 17: very small inputs, as far as reading goes
    17: ("test_bug_reports::test_files_of_one_to_64_bytes",),
    # 35: names as HTML or Markdown, as far as messages go
    35: ("test_files_hostile::test_names_with_line_ends_and_marks_stay_one_line",),
    # 37: zeros and constants under quantisers (torchao 4713)
    37: (
        "test_transforms::test_contract_on_any_bits",
        "test_transforms::test_uniform_error_is_at_most_one_step",
        "test_transforms::test_quantised_zero_is_the_integer_zero_up_to_seven_bits",
    ),
    # 38: top-k by magnitude, ties, how many (pfl-research 65)
    38: (
        "test_transforms::test_topk_against_sorting",
        "test_transforms::test_topk_by_hand",
        "test_transforms::test_keeping_all_is_the_identity_on_bytes",
        "test_command_line::test_tokens_measure_and_compare",
    ),
    # 39: odd counts of 4-bit values (compressed-tensors 401)
    39: ("test_transforms::test_four_bits_of_five_by_three_by_hand",),
    # 40: range of fp16 and fp8 (pytorch 57410)
    40: ("test_transforms::test_fp16_range_and_counts", "test_transforms::test_e4m3_has_no_infinities"),
    # 41: bounds and NaN (SZ3 91)
    41: (
        "test_transforms::test_uniform_error_is_at_most_one_step",
        "test_transforms::test_nonfinite_values_are_kept_by_quantisers",
        "test_transforms::test_uniform_of_huge_and_wide_ranges",
    ),
    # 42: random rounding (OneTrainer 804)
    42: (
        "test_transforms::test_noise_follows_seed_and_name",
        "test_transforms::test_qsgd_is_right_on_average",
        "test_transforms::test_published_seeds_stay_what_they_are",
    ),
}
CASES = [(number, place) for number, places in COVERED.items() for place in places]


@pytest.mark.parametrize(("number", "place"), CASES)
def test_the_entry_has_its_test(number: int, place: str) -> None:
    module, name = place.split("::")
    found = getattr(importlib.import_module(f"tests.{module}"), name, None)
    assert python_inspect.isfunction(found) or callable(found), f"entry {number}: {place} is gone"


def test_tensors_saved_on_a_gpu_open_without_one(tmp_path) -> None:
    import io
    import zipfile

    import torch

    from lmgc_core.files import load_gradient

    whole = io.BytesIO()
    torch.save({"g": torch.arange(4.0)}, whole)
    path = tmp_path / "cuda.pt"
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w") as new:
        for member in old.infolist():
            data = old.read(member)
            new.writestr(member.filename, data.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0"))
    assert b"cuda:0" in path.read_bytes()
    assert load_gradient(path)["g"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n_bytes", [1, 2, 4, 8, 56, 64])
def test_files_of_one_to_64_bytes(dtype: str, n_bytes: int, tmp_path) -> None:
    from lmgc_core.errors import UnsupportedInput
    from lmgc_core.files import load_gradient
    from lmgc_core.gradient import DTYPES

    path = tmp_path / "g.bin"
    path.write_bytes(bytes(range(n_bytes)))
    if n_bytes % DTYPES[dtype].item_bytes:
        with pytest.raises(UnsupportedInput, match="multiple"):
            load_gradient(path, raw_dtype=dtype)
    else:
        assert load_gradient(path, raw_dtype=dtype).to_bytes() == path.read_bytes()

"""Public reports of what goes wrong with tensors and files elsewhere, each beside the test that holds here.

Reports are named by project and number; a test is "file::name". Each of the 42 reports has tests here, and each of
the 14 things to try that are no file; what is done otherwise than asked has its reason.
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
    16: (
        "test_files_figures::test_denormals_are_no_zeros_even_where_the_process_flushes_them",
        "test_files_contract::test_every_bit_comes_back",
        "test_transforms::test_same_result_while_denormals_are_flushed",
        "test_archive::test_every_bit_comes_back",
    ),
    # 17: very small inputs (bzip3 53, rangecoder 1, htscodecs 101)
    17: (
        "test_bug_reports::test_files_of_one_to_64_bytes",
        "test_archive::test_any_bits_of_any_dtype_and_shape_come_back",
        "test_archive::test_nothing_at_all_has_an_archive",
        "test_baselines::test_every_dtype",
    ),
    # 18: baselines that lose bits (flac 306, libsndfile 309, Pillow 5218, python-blosc2 359, zarr-python 307)
    18: (
        "test_baselines::test_the_same_bytes_or_a_reason",
        "test_baselines::test_any_bits",
        "test_baselines::test_a_codec_that_cheats_is_found_out",
        "test_baselines::test_chunks_are_marked_and_decode",
    ),
    # 19: spaces lost or added (transformers 40088, tokenizers 1543, llama-cpp-python 1531)
    19: (
        "test_awkward_bytes::test_awkward_bytes_come_back_from_their_tokens",
        "test_awkward_bytes::test_awkward_bytes_come_back_from_an_archive",
        "test_language_model_tokenizer::test_a_leading_space_makes_a_difference",
        "test_language_model_tokenizer::test_any_text_comes_back",
    ),
    # 20: normalisers and unknown characters (sentencepiece 329, 134)
    20: (
        "test_awkward_bytes::test_a_tokenizer_that_loses_characters_is_refused_before_any_value_is_read",
        "test_awkward_bytes::test_a_model_whose_tokenizer_folds_case_still_reads_hexadecimal",
        "test_language_model_tokenizer::test_lowercasing_is_refused_for_latin_1_and_allowed_for_lower_case_hex",
    ),
    # 21: names of special tokens as data (tokenizers 1347, 1850, transformers 31337)
    21: (
        "test_awkward_bytes::test_awkward_bytes_come_back_from_their_tokens",
        "test_language_model_tokenizer::test_texts_that_tokenizers_trip_over",
    ),
    # 22: NUL, controls, line ends (llama.cpp 25543, cpython 78982, codespell 23)
    22: (
        "test_awkward_bytes::test_awkward_bytes_come_back_from_their_tokens",
        "test_awkward_bytes::test_awkward_bytes_come_back_from_an_archive",
        "test_language_model_tokenizer::test_forgotten_control_characters_get_stand_ins",
    ),
    # 23: characters split over tokens (tokenizers 1141, 1628)
    23: (
        "test_awkward_bytes::test_awkward_bytes_come_back_from_their_tokens",
        "test_language_model_tokenizer::test_a_run_that_is_no_text_is_refused",
        "test_accounting::test_pure_separators_and_tokens_without_text",
    ),
    # 24: which tokenizer it was (transformers 24569, 33371, 35973)
    24: (
        "test_awkward_bytes::test_a_tokenizer_changed_by_one_merge_is_refused_before_decoding",
        "test_language_model_tokenizer::test_fingerprint_follows_content_not_spelling",
        "test_archive::test_another_model_is_refused",
    ),
    # 25: long text without spaces (vmlx-swift 73, tokenizers 2256)
    25: ("test_awkward_bytes::test_ten_times_the_text_is_ten_times_as_many_pieces_and_none_longer",),
    # 26: one pass at encode, step by step at decode (language_modeling_is_compression 20, 3; transformers 25420)
    26: (
        "test_archive::test_every_bit_comes_back",
        "test_archive::test_steps_agree_with_one_pass_far_within_the_guard",
        "test_archive::test_a_wrong_decoder_is_caught_by_the_proof",
    ),
    # 27: batch, threads, CPU type (transformers 26869, 29029, pytorch 155423, oneDNN 1443)
    27: (
        "test_archive::test_the_whole_matrix",
        "test_archive::test_an_archive_made_elsewhere_decodes_here_and_the_other_way_round",
        "test_guarded_rounding::test_what_differs_by_less_than_the_guard_gives_equal_frequencies",
    ),
    # 28: context window and first token (transformers 530, 4147, 40524)
    28: (
        "test_awkward_bytes::test_token_counts_around_the_context_of_absolute_positions",
        "test_awkward_bytes::test_a_context_window_beyond_the_models_is_refused",
        "test_language_model_scoring::test_rows_begin_with_the_start_token_and_leave_out_the_last",
        "test_codec::test_everything_adds_up",
    ),
    # 29: probabilities and coder (torchac 3, L3C-PyTorch 26, tensorflow/compression 114)
    29: (
        "test_guarded_rounding::test_frequencies_add_up_exactly_and_none_is_zero",
        "test_coder::test_the_library_uses_exactly_the_given_boundaries",
        "test_archive::test_a_model_that_gives_nan_is_refused",
        "test_awkward_bytes::test_awkward_bytes_come_back_from_an_archive",
    ),
    # 30: end of stream and damage (Reference-arithmetic-coding 13, jcommon 23, SZ3 145)
    30: (
        "test_archive::test_every_prefix_and_every_flip_is_refused",
        "test_archive::test_mutations_end_in_one_line_errors",
        "test_container::test_every_prefix_flip_and_tail_is_refused",
        "test_container::test_mixed_parts_are_refused",
        "test_coder::test_messages_that_end_in_zero_or_full_bytes",
    ),
    # 31: uploads read once (streamlit 2168, 2213, 8983, 9218)
    31: (
        "test_ui_incoming::test_an_upload_gives_its_own_bytes_at_every_run",
        "test_ui_incoming::test_files_that_cannot_be_used_are_lines_and_leave_the_others",
    ),
    # 32: cache keys that sample (streamlit 14622)
    32: (
        "test_ui_incoming::test_one_changed_value_among_half_a_million_is_another_gradient",
        "test_ui_incoming::test_equal_bytes_of_another_shape_or_name_are_another_gradient",
    ),
    # 33: the model loaded twice (streamlit 8009, 5998)
    33: (
        "test_ui_models::test_sessions_that_need_the_model_at_once_load_it_once",
        "test_ui_models::test_another_model_takes_the_place_of_the_one_before",
        "test_many_visitors::test_twenty_visitors_at_once_get_their_own_numbers_from_one_model",
    ),
    # 34: rerun, disconnect, download (streamlit 10578, 9904, 4297, 5586)
    34: (
        "test_ui_models::test_a_touch_in_the_middle_of_a_run_leaves_it_running",
        "test_ui_models::test_downloads_are_the_same_bytes_each_time_and_results_stay",
        "test_ui_pages::test_changed_settings_mark_the_older_result_and_keep_it",
        "test_ui_pages::test_an_address_with_a_run_shows_it_in_a_new_session",
        "test_many_visitors::test_a_server_killed_at_work_leaves_nothing_half_and_the_next_one_starts",
    ),
    # 35: names as HTML or Markdown (updog 59, streamlit 16604)
    35: (
        "test_files_hostile::test_names_with_line_ends_and_marks_stay_one_line",
        "test_ui_incoming::test_names_of_uploads_are_text_and_never_paths",
        "test_ui_pages::test_names_from_files_are_never_markdown",
        "test_codec::test_names_are_text_in_the_html",
    ),
    # 36: heatmaps (plotly.js 6847, streamlit 1630, visdom 617)
    36: (
        "test_ui_models::test_arrays_that_break_pictures_are_drawn",
        "test_ui_figures::test_no_picture_is_larger_than_256_by_256",
        "test_ui_figures::test_reduction_ignores_what_was_not_sampled_and_states_itself",
    ),
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
# What to try that is no file: (entry, what is done) → its tests.
SITUATIONS: dict[tuple[int, str], tuple[str, ...]] = {
    (18, "every baseline on every kind of array"): (
        "test_baselines::test_the_same_bytes_or_a_reason",
        "test_baselines::test_every_dtype",
    ),
    (20, "a tokenizer without byte fallback or with NFKC is chosen"): (
        "test_awkward_bytes::test_a_tokenizer_that_loses_characters_is_refused_before_any_value_is_read",
    ),
    (24, "a slow tokenizer, or one changed by one token, at decoding"): (
        "test_awkward_bytes::test_a_tokenizer_changed_by_one_merge_is_refused_before_decoding",
        "test_language_model_tokenizer::test_a_slow_tokenizer_is_converted_once",
    ),
    (26, "one pass at encoding, token by token with a cache at decoding"): ("test_archive::test_every_bit_comes_back",),
    (27, "other batches and threads at decoding"): ("test_archive::test_the_whole_matrix",),
    (28, "token counts round the context window, absolute positions"): (
        "test_awkward_bytes::test_token_counts_around_the_context_of_absolute_positions",
    ),
    (29, "vocabularies of 257 to 262,144 tokens"): (
        "test_guarded_rounding::test_frequencies_add_up_exactly_and_none_is_zero",
    ),
    (30, "an archive cut everywhere, flipped, extended, mixed with another"): (
        "test_archive::test_every_prefix_and_every_flip_is_refused",
        "test_container::test_mixed_parts_are_refused",
    ),
    (31, "an upload is used twice with a change between"): (
        "test_ui_incoming::test_an_upload_gives_its_own_bytes_at_every_run",
    ),
    (33, "two sessions at the first load"): ("test_ui_models::test_sessions_that_need_the_model_at_once_load_it_once",),
    (33, "another model and back"): ("test_ui_models::test_another_model_takes_the_place_of_the_one_before",),
    (34, "a widget is moved during a run"): ("test_ui_models::test_a_touch_in_the_middle_of_a_run_leaves_it_running",),
    (34, "a download is repeated"): ("test_ui_models::test_downloads_are_the_same_bytes_each_time_and_results_stay",),
    (39, "four bits of an odd count"): ("test_transforms::test_four_bits_of_five_by_three_by_hand",),
}
# Where a report asks for something else than this project does, and why.
REASONS: dict[tuple[int, str], str] = {
    (24, "decode with the slow tokenizer"): "there is one tokenizer: a slow one is converted once, and has the "
    "converted one's fingerprint",
    (39, "the packed size counts the pad nibble"): "quantised values are not packed: they are whole numbers that "
    "are serialized and coded, so there is no nibble; shape and count stand in the header, which is counted",
    (9, "stride 0 beyond the file"): "a repeated tensor of huge shape needs --max-bytes, as compressed ones do",
    (31, "peak memory of an upload"): "Streamlit holds an upload in memory itself; it is read once and written to "
    "disk beside, and test_files_memory bounds what reading adds",
}
N_ENTRIES = 42
N_SITUATIONS = 14
PLACES = sorted({place for places in (*COVERED.values(), *SITUATIONS.values()) for place in places})


def test_each_entry_and_each_situation_has_a_test() -> None:
    assert sorted(COVERED) == list(range(1, N_ENTRIES + 1))
    assert len(SITUATIONS) == N_SITUATIONS
    assert all(COVERED.values())
    assert all(SITUATIONS.values())
    assert all(number in COVERED and reason for (number, _), reason in REASONS.items())


@pytest.mark.parametrize("place", PLACES)
def test_the_named_test_is_there(place: str) -> None:
    module, name = place.split("::")
    found = getattr(importlib.import_module(f"tests.{module}"), name, None)
    assert python_inspect.isfunction(found), f"{place} is gone"


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

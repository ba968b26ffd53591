"""Switches of symbolic shapes: kept for programs that set them, and without effect. Sizes are numbers here."""

import sys as _sys

from ...utils._config_module import install_config_module as _install

no_data_dependent_graph_break = translation_validation = translation_validation_no_bisect = False
check_shape_env_recorded_events = extended_debug_cpp = extended_debug_current_loc = print_specializations = False
validate_shape_env_version_key = meta_nonzero_assume_all_nonzero = backed_size_oblivious = False
unify_view_symbols_bso_meta = skip_dtype_check_in_meta_registrations = enrich_profiler_metadata = False
soft_pending_unbacked_not_found_error = False
translation_validation_timeout = 600000
extended_debug_guard_added = extended_debug_create_symbol = symbol_guard_limit_before_specialize = None
use_duck_shape = True
aggressive_guard_free_semantics = 0

_install(_sys.modules[__name__])

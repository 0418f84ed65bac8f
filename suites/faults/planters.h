// SPDX-License-Identifier: Apache-2.0
// The mistakes, by how they get in. table.cpp says what each is and who finds it.
#pragma once
#include "suites/faults/wrap.h"

namespace lockstep::suites::plant {

// world_faults.cpp: collectives.
EnginePtr term_lost();
EnginePtr term_doubled();
EnginePtr neighbour_group();
EnginePtr next_rank();
EnginePtr pieces_swapped();
EnginePtr exchange_reversed();
EnginePtr short_piece_lost();
EnginePtr zero_sign_lost();
EnginePtr nan_dropped();
EnginePtr denormals_flushed();
EnginePtr bit_flipped();
EnginePtr one_rank_stale();

// rule_faults.cpp: rows of the rule table.
EnginePtr mm_not_reduced();
EnginePtr sum_not_reduced();
EnginePtr mean_reduced_as_sum();
EnginePtr amax_reduced_as_sum();
EnginePtr mul_keeps_partials();
EnginePtr add_to_partial();
EnginePtr relu_of_partial();
EnginePtr exp_of_partial();
EnginePtr unsqueeze_keeps_dim();
EnginePtr transpose_keeps_dim();
EnginePtr permute_keeps_dim();
EnginePtr mean_of_uneven();
EnginePtr argmax_of_shards();
EnginePtr max_dim_of_shards();
EnginePtr sort_of_shards();
EnginePtr embedding_gradient_not_reduced();
EnginePtr norm_gradient_not_reduced();

// random_faults.cpp: the stream of a random op.
EnginePtr stale_offset();
EnginePtr per_rank_offset();
EnginePtr offset_doubled();
EnginePtr local_advance();
EnginePtr empty_ranks_stay();
EnginePtr lanes_swapped();
EnginePtr unroll_halved();
EnginePtr local_geometry();
EnginePtr local_numbering();
EnginePtr vectors_halved();

// operator_faults.cpp: what a random op makes of its draw, in the engine and in the oracle's plain run.
EnginePtr bernoulli_other_side();
EnginePtr rrelu_threshold();
EnginePtr multinomial_least();
EnginePtr range_short();
EnginePtr dropout_divides();
EnginePtr oracle_bernoulli_other_side();
EnginePtr oracle_rrelu_threshold();
EnginePtr oracle_multinomial_least();
EnginePtr oracle_range_short();
EnginePtr oracle_dropout_scale();

// program_faults.cpp: another program is run; result_faults.cpp: results are spoilt; random and cache
// besides.
EnginePtr in_place_on_copy();
EnginePtr view_of_copy();
EnginePtr in_place_twice();
EnginePtr gradient_output_ignored();
EnginePtr partial_reduced_in_place();
EnginePtr redistribute_reused();
EnginePtr draws_twice();
EnginePtr other_device();
EnginePtr per_rank_seeds();
EnginePtr offset_based();
EnginePtr gradient_of_replica_doubled();
EnginePtr gradient_of_partial_divided();
EnginePtr order_of_shards_forgotten();
EnginePtr interleaving_forgotten();
EnginePtr flat_slice_late();
EnginePtr remainder_stale();
EnginePtr replica_drifts();
EnginePtr offset_not_advanced();
EnginePtr cache_ignores_numbers();
EnginePtr cache_ignores_flags();
EnginePtr cache_ignores_operands();
EnginePtr cache_ignores_mesh();

// process_faults.cpp: they take the process along, stop it, or come and go.
EnginePtr crashes();
EnginePtr hangs();
EnginePtr comes_and_goes();

}  // namespace lockstep::suites::plant

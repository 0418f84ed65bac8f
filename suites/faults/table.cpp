// SPDX-License-Identifier: Apache-2.0
// The table of planted faults, by class. The suites and the numbers of cases are promises that the suite
// `faults` keeps.
#include "engine/values/error.h"
#include "suites/faults/fault.h"
#include "suites/faults/planters.h"
#include "suites/faults/touches.h"

namespace lockstep::suites {
namespace {

using C = const oracle::Case&;

bool redistributes(C c) {
  return many_ranks(c) && calls(c, "lockstep::redistribute");
}
bool multiplies(C c) {
  return many_ranks(c) && (mentions(c, "mm") || mentions(c, "matmul") || mentions(c, "linear"));
}
bool sums(C c) {
  return many_ranks(c) && (mentions(c, "sum") || has_backward(c));
}
bool means(C c) {
  return many_ranks(c) && mentions(c, "mean");
}
bool maxima(C c) {
  return many_ranks(c) && mentions(c, "amax");
}
bool partial_mul(C c) {
  return has_partial(c) && many_ranks(c) && mentions(c, "mul");
}
bool partial_add(C c) {
  return has_partial(c) && many_ranks(c) && mentions(c, "add");
}
bool partial_relu(C c) {
  return has_partial(c) && many_ranks(c) && mentions(c, "relu");
}
bool partial_exp(C c) {
  return has_partial(c) && many_ranks(c) && mentions(c, "exp");
}
bool unsqueezes(C c) {
  return many_ranks(c) && mentions(c, "unsqueeze");
}
bool transposes(C c) {
  return many_ranks(c) && (mentions(c, "transpose") || mentions(c, "matmul"));
}
bool permutes(C c) {
  return many_ranks(c) && mentions(c, "permute");
}
bool argmaxes(C c) {
  return many_ranks(c) && mentions(c, "argmax");
}
bool max_dims(C c) {
  return many_ranks(c) && calls(c, "aten::max");
}
bool sorts(C c) {
  return many_ranks(c) && mentions(c, "sort");
}
bool embeds_backward(C c) {
  return many_ranks(c) && mentions(c, "embedding");
}
bool layer_norms(C c) {
  return many_ranks(c) && mentions(c, "layer_norm");
}
bool writes(C c) {
  for (const auto& call : c.program.calls)
    if (call.op.substr(0, call.op.find('.')).ends_with('_')) return true;
  return false;
}
bool draws_bernoulli(C c) {
  return mentions(c, "bernoulli");
}
bool draws_rrelu(C c) {
  return mentions(c, "rrelu");
}
bool draws_multinomial(C c) {
  return mentions(c, "multinomial");
}
bool draws_integers(C c) {
  return mentions(c, "random") || mentions(c, "randint");
}
bool drops(C c) {
  return mentions(c, "dropout");
}
bool draws(C c) {
  return has_random(c) && many_ranks(c);
}
bool backs(C c) {
  return has_backward(c);
}
bool any(C) {
  return true;
}

using namespace plant;

constexpr Fault kFaults[] = {
    {"term-lost", "K1", "the last rank's term of a reduction is lost", "redistribute", 300, 1, many_ranks,
     term_lost},
    {"term-doubled", "K1", "the first rank's term stands in for the last's", "redistribute", 300, 1,
     many_ranks, term_doubled},
    {"mm-not-reduced", "K1", "mm over a sharded inner dimension is called Replicate", "ops", 2000, 3,
     multiplies, mm_not_reduced},
    {"sum-not-reduced", "K1", "sum over a sharded dimension is called Replicate", "ops", 2000, 3, sums,
     sum_not_reduced},
    {"mean-reduced-as-sum", "K1", "means of shards are summed", "ops", 2000, 3, means, mean_reduced_as_sum},
    {"amax-reduced-as-sum", "K1", "maxima of shards are summed", "ops", 2000, 3, maxima, amax_reduced_as_sum},
    {"neighbour-group", "K2", "a gather along one mesh dimension reads the neighbouring group",
     "redistribute", 300, 1, many_ranks, neighbour_group},
    {"next-rank", "K2", "each piece comes from the next rank of the group", "redistribute", 300, 1,
     many_ranks, next_rank},
    {"mul-keeps-partials", "K3", "the product of two Partials is called Partial", "ops", 3000, 3, partial_mul,
     mul_keeps_partials},
    {"add-to-partial", "K3", "a number is added on every rank of a Partial", "ops", 3000, 3, partial_add,
     add_to_partial},
    {"relu-of-partial", "K3", "relu of a Partial is called Partial", "ops", 3000, 3, partial_relu,
     relu_of_partial},
    {"exp-of-partial", "K3", "exp of a Partial is called Partial", "ops", 3000, 3, partial_exp,
     exp_of_partial},
    {"in-place-on-copy", "K4", "an in-place op writes to a copy", "program", 500, 3, writes,
     in_place_on_copy},
    {"view-of-copy", "K4", "a view is a copy, so that writes through it are lost", "program", 3000, 3, writes,
     view_of_copy},
    {"in-place-twice", "K4", "an in-place op writes twice", "program", 500, 3, writes, in_place_twice},
    {"unsqueeze-keeps-dim", "K5", "unsqueeze does not shift the sharded dimension", "ops", 2000, 3,
     unsqueezes, unsqueeze_keeps_dim},
    {"transpose-keeps-dim", "K5", "transpose does not swap the sharded dimension", "ops", 6000, 3, transposes,
     transpose_keeps_dim},
    {"permute-keeps-dim", "K5", "permute does not move the sharded dimension", "ops", 2000, 3, permutes,
     permute_keeps_dim},
    {"pieces-swapped", "K6", "the first two pieces of a collective are swapped", "redistribute", 300, 1,
     many_ranks, pieces_swapped},
    {"exchange-reversed", "K6", "an all-to-all delivers in reverse order", "redistribute", 500, 1, many_ranks,
     exchange_reversed},
    {"order-of-shards-forgotten", "K6", "the order in which mesh dimensions cut is forgotten", "redistribute",
     1000, 1, any, order_of_shards_forgotten},
    {"interleaving-forgotten", "K6", "an InterleavedShard is called Shard", "redistribute", 500, 1, any,
     interleaving_forgotten},
    {"flat-slice-late", "K6", "the flat slice of a RaggedShard begins one element late", "layout", 500, 1,
     any, flat_slice_late},
    {"short-piece-lost", "K7", "a piece shorter than the first is lost", "redistribute", 300, 1, many_ranks,
     short_piece_lost},
    {"remainder-stale", "K7", "the short last shard of a result is never computed", "ops", 300, 3, many_ranks,
     remainder_stale},
    {"mean-of-uneven", "K7", "means of unequal shards are averaged", "ops", 2000, 3, means, mean_of_uneven},
    {"cache-ignores-numbers", "K8", "the second call of an op gets the first's numbers", "cache", 300, 3, any,
     cache_ignores_numbers},
    {"cache-ignores-flags", "K8", "the second call of an op gets the first's dims, flags and dtypes", "cache",
     1000, 3, any, cache_ignores_flags},
    {"cache-ignores-operands", "K8", "the second call of an op gets the first's operands", "cache", 300, 3,
     any, cache_ignores_operands},
    {"cache-ignores-mesh", "K8", "the answer for one mesh is given for another", "cache", 300, 3, any,
     cache_ignores_mesh},
    {"argmax-of-shards", "K9", "argmax of a shard gives local indices", "ops", 3000, 3, argmaxes,
     argmax_of_shards},
    {"max-dim-of-shards", "K9", "max over a sharded dimension gives local indices", "ops", 3000, 3, max_dims,
     max_dim_of_shards},
    {"sort-of-shards", "K9", "shards are sorted one by one", "ops", 3000, 3, sorts, sort_of_shards},
    {"gradient-output-ignored", "K10", "backward starts from ones", "gradient", 100, 3, backs,
     gradient_output_ignored},
    {"gradient-of-replica-doubled", "K10", "the gradient of a replicated tensor is counted twice", "gradient",
     200, 3, backs, gradient_of_replica_doubled},
    {"gradient-of-partial-divided", "K10", "the gradient of a Partial is divided", "gradient", 300, 3, backs,
     gradient_of_partial_divided},
    {"embedding-gradient-not-reduced", "K10", "the weight's gradient of a sharded batch is not reduced",
     "gradient", 3000, 3, embeds_backward, embedding_gradient_not_reduced},
    {"norm-gradient-not-reduced", "K10", "the gain's gradient of a sharded batch is not reduced", "gradient",
     3000, 3, layer_norms, norm_gradient_not_reduced},
    {"partial-reduced-in-place", "K11", "a Partial used again has been reduced in place", "redistribute",
     1000, 3, redistributes, partial_reduced_in_place},
    {"redistribute-reused", "K11", "a second redistribution alike gets the first's value", "program", 3000, 3,
     redistributes, redistribute_reused},
    {"per-rank-seeds", "K12", "each rank draws from its own seed", "random", 100, 1, draws, per_rank_seeds},
    {"offset-based", "K12", "ranks draw at offsets that count elements", "random", 100, 1, draws,
     offset_based},
    {"draws-twice", "K12", "a random op advances the stream twice", "random", 100, 2, has_random,
     draws_twice},
    {"other-device", "K12", "the stream is that of a device with one multiprocessor more", "random", 200, 1,
     has_random, other_device},
    {"stale-offset", "K12", "a random op draws where the one before it did", "random", 100, 2, has_random,
     stale_offset},
    {"per-rank-offset", "K12", "each rank draws at an offset of its own", "random", 100, 1, draws,
     per_rank_offset},
    {"offset-doubled", "K12", "the offset moves twice as far", "random", 100, 2, has_random, offset_doubled},
    {"advance-of-local", "K12", "the offset moves as for the first rank's shard", "random", 300, 2, draws,
     local_advance},
    {"empty-ranks-stay", "K12", "the offset of a rank whose shard is empty does not move", "random", 300, 2,
     draws, empty_ranks_stay},
    {"lanes-swapped", "K12", "the words of a block are taken in another order", "random", 100, 1, has_random,
     lanes_swapped},
    {"unroll-halved", "K12", "a thread takes two numbers of a block, not four", "random", 200, 1, has_random,
     unroll_halved},
    {"geometry-of-local", "K12", "as many threads as the shard needs, not the tensor", "random", 300, 1,
     draws, local_geometry},
    // Two ops where it is a view that shows it, on one rank: its own strides are not the tensor's.
    {"numbers-of-local", "K12", "elements are numbered within the shard, not the tensor", "random", 100, 2,
     draws, local_numbering},
    {"vectors-halved", "K12", "dropout's threads take half as many elements at a time", "random", 300, 1,
     has_random, vectors_halved},
    {"offset-not-advanced", "K12", "the offset after a random op is stale", "random", 100, 1, has_random,
     offset_not_advanced},
    {"zero-sign-lost", "K13", "-0.0 becomes +0.0 on the wire", "redistribute", 500, 2, many_ranks,
     zero_sign_lost},
    {"nan-dropped", "K13", "a NaN loses against numbers", "redistribute", 500, 1, many_ranks, nan_dropped},
    {"denormals-flushed", "K13", "denormals become zero on the wire", "redistribute", 500, 1, many_ranks,
     denormals_flushed},
    {"bit-flipped", "K14", "one bit of one piece is flipped", "redistribute", 300, 1, many_ranks,
     bit_flipped},
    {"one-rank-stale", "K14", "one rank reads the buffer of the gather before", "redistribute", 1000, 2,
     many_ranks, one_rank_stale},
    {"replica-drifts", "K14", "one replica differs in one bit", "ops", 300, 3, many_ranks, replica_drifts},
    // Last, so that the cases before keep their numbers.
    {"bernoulli-other-side", "K12", "bernoulli_(Tensor) is 1 where u >= P", "random", 300, 1, draws_bernoulli,
     bernoulli_other_side},
    {"rrelu-threshold", "K12", "rrelu's slopes reach up to inputs of 0.5", "random", 500, 1, draws_rrelu,
     rrelu_threshold},
    {"multinomial-least", "K12", "multinomial takes the least ratio", "random", 500, 1, draws_multinomial,
     multinomial_least},
    {"range-short", "K12", "random_ never draws the last integer of a range", "random", 300, 1,
     draws_integers, range_short},
    {"dropout-divides", "K12", "dropout divides by 1 - p, where stock multiplies", "random", 500, 1, drops,
     dropout_divides},
    {"oracle-bernoulli-other-side", "K12", "in the oracle, bernoulli_(Tensor) is 1 where u > P", "random",
     300, 1, draws_bernoulli, oracle_bernoulli_other_side},
    {"oracle-rrelu-threshold", "K12", "in the oracle, rrelu's slopes reach up to inputs of 0.5", "random",
     500, 1, draws_rrelu, oracle_rrelu_threshold},
    {"oracle-multinomial-least", "K12", "in the oracle, multinomial takes the least ratio", "random", 500, 1,
     draws_multinomial, oracle_multinomial_least},
    {"oracle-range-short", "K12", "in the oracle, random_ never draws the last integer of a range", "random",
     300, 1, draws_integers, oracle_range_short},
    {"oracle-dropout-scale", "K12", "in the oracle, dropout scales by 1 / p", "random", 500, 1, drops,
     oracle_dropout_scale},
};

bool relu_on_ranks(C c) {
  return many_ranks(c) && calls(c, "aten::relu");
}

const Fault kProcessFaults[] = {
    {"crash", "process", "relu on several ranks takes the process along", "ops", 1000, 1, relu_on_ranks,
     crashes},
    {"hang", "process", "relu on several ranks never ends", "ops", 1000, 1, relu_on_ranks, hangs},
    {"flaky", "process", "every other relu on several ranks is off by one", "ops", 1000, 1, relu_on_ranks,
     comes_and_goes},
};

}  // namespace

std::span<const Fault> process_faults() {
  return kProcessFaults;
}

std::span<const Fault> faults() {
  return kFaults;
}

const Fault& find_fault(std::string_view name) {
  std::string names;
  for (const auto list : {faults(), process_faults()})
    for (const auto& f : list) {
      if (f.name == name) return f;
      names += concat(names.empty() ? "" : ", ", f.name);
    }
  throw Error(concat("[faults] no fault is called '", name, "'; there are: ", names));
}

}  // namespace lockstep::suites

// SPDX-License-Identifier: Apache-2.0
#include "generators/cases/blocks.h"

#include <algorithm>

#include "generators/program/trial.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {
namespace {

using oracle::Block;
using oracle::Call;
using oracle::Ref;

// Behind the last call that writes, since what a block has read must stay, and before the last backward.
Block where_blocks_may_be(const std::vector<Call>& calls) {
  Block room{0, calls.size()};
  for (size_t k = 0; k < calls.size(); ++k)
    if (oracle::runs_backward(calls[k].op)) room.end = k;
  for (size_t k = 0; k < room.end; ++k)
    if (!written_by(calls[k]).empty()) room.begin = k + 1;
  return room;
}

// A block gives tensors of its own: one that it was handed, as `positive` gives back, would lose its history.
bool gives_its_own(const std::vector<at::Tensor>& values, int64_t first, int64_t behind) {
  for (int64_t r = first; r < behind; ++r)
    for (int64_t before = 0; before < first; ++before)
      if (values[static_cast<size_t>(r)].is_same(values[static_cast<size_t>(before)])) return false;
  return true;
}

// Whatever a block gives has a history if something has that it reads. What had none must have no reader
// behind it: libtorch may have no derivative for that.
bool keeps_histories(const oracle::Program& program, const std::vector<at::Tensor>& values,
                     const Block& block) {
  const auto first = first_results(program);
  const auto last = block.end - 1;
  if (!gives_its_own(values, first[block.begin], first[last] + program.calls[last].results)) return false;
  std::vector<bool> fresh(values.size(), false);
  for (size_t k = block.begin; k < block.end; ++k)
    for (int64_t r = first[k]; r < first[k] + program.calls[k].results; ++r) {
      const auto& value = values[static_cast<size_t>(r)];
      fresh[static_cast<size_t>(r)] = value.defined() && value.is_floating_point() && !value.requires_grad();
    }
  for (size_t k = block.end; k < program.calls.size(); ++k)
    for (const Ref ref : references(program.calls[k]))
      if (fresh[static_cast<size_t>(ref.id)]) return false;
  return true;
}

// Whatever a block reads gets a gradient, of zeros where none of its results has one: behind it, nothing that
// a backward needs may have been written since.
bool can_give_gradients(oracle::Program program, const std::vector<at::Tensor>& values, const Block& block) {
  auto read = outer_values(program, block, first_results(program)[block.begin]);
  std::erase_if(read, [&](Ref ref) { return !values[static_cast<size_t>(ref.id)].requires_grad(); });
  if (read.empty()) return true;
  const auto leaves = std::count_if(program.inputs.begin(), program.inputs.end(),
                                    [](const oracle::Input& input) { return input.requires_grad; });
  program.calls.resize(block.begin);
  program.calls.push_back({std::string(oracle::kBackward), {read, read}, leaves});
  return trial(program).has_value();
}

}  // namespace

oracle::Case with_checkpoint(oracle::Case c, Random random) {
  auto& calls = c.program.calls;
  if (std::any_of(calls.begin(), calls.end(), oracle::creates_graph)) return c;
  const Block room = where_blocks_may_be(calls);
  if (room.begin >= room.end) return c;
  const auto values = trial(c.program);
  if (!values) return c;
  for (int tries = 0; tries < 6; ++tries) {
    Block block{static_cast<size_t>(
        random.between(static_cast<int64_t>(room.begin), static_cast<int64_t>(room.end) - 1))};
    const auto most = block.begin + static_cast<size_t>(random.between(1, 4));
    for (block.end = block.begin; block.end < std::min(most, room.end); ++block.end)
      if (!oracle::may_run_twice(calls[block.end])) break;
    if (block.end == block.begin || !keeps_histories(c.program, *values, block) ||
        !can_give_gradients(c.program, *values, block))
      continue;
    const bool restores = random.chance(80);
    calls.insert(calls.begin() + static_cast<ptrdiff_t>(block.end),
                 Call{std::string(oracle::kCheckpointEnd), {}, 0});
    calls.insert(calls.begin() + static_cast<ptrdiff_t>(block.begin),
                 Call{std::string(oracle::kCheckpoint), {restores}, 0});
    return c;
  }
  return c;
}

}  // namespace lockstep::generators

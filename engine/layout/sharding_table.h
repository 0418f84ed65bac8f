// SPDX-License-Identifier: Apache-2.0
// Which ranks hold what of a tensor of at most two dimensions, as a table (torch:
// torch.distributed.tensor.debug.visualize_sharding).
#pragma once
#include <string>
#include <vector>

#include "engine/layout/layout.h"

namespace lockstep {

struct ShardingTable {
  // Cut wherever some rank's part begins or ends. Of a tensor of one dimension there is one row.
  std::vector<Interval> rows, columns;
  std::vector<std::vector<std::vector<int64_t>>> ranks;  // [row][column], ascending
};

// Law: an element is in one row and one column, and the ranks there are those that hold it. Throws Error for
// a tensor of more than two dimensions, or of none.
ShardingTable sharding_table(const Spec& spec);
// With what pends below.
std::string visualize_sharding(const Spec& spec);
// A table element, whose cells have the colour of their ranks.
std::string visualize_sharding_html(const Spec& spec);

}  // namespace lockstep

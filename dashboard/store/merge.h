// SPDX-License-Identifier: Apache-2.0
// Joins shard databases into one, by content.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "dashboard/store/store.h"

namespace lockstep::dashboard {

struct MergeResult {
  int64_t shards = 0;
  int64_t cases_added = 0, cases_known = 0;  // known: they were in the target before
  int64_t nondeterministic = 0;              // cases of the target with more than one outcome, afterwards
};

// Law: a set of shards has one merged content, whatever their order, grouping or repetition. Rows are found
// by what they say, never by their row number; counts are kept per worker and joined by maximum; of two rows
// with the same key and outcome the smaller values stay; two outcomes of one case both stay. Each shard is
// one transaction: a killed merge leaves whole shards, and is simply run again.
// @throws StoreError, naming the file; shards before it are merged.
MergeResult merge(Store& into, std::span<const std::string> shards);

// The same for files that somebody names: all are opened and checked, against each other too, before the
// target is made or takes a row. So a file that cannot be joined leaves the target as it was; only a full
// disk, or a kill, can leave whole files of several.
MergeResult merge_files(const std::string& into, std::span<const std::string> from);

}  // namespace lockstep::dashboard

// SPDX-License-Identifier: Apache-2.0
// A copy of a store for others to read.
#pragma once
#include <cstdint>
#include <string>

namespace lockstep::dashboard {

struct PublishedSize {
  int64_t source, copy;  // bytes
};

enum class Copy : uint8_t {
  kWhole,    // every row
  kForGate,  // counts, failures, and of cases that passed the keys with their verdicts: see condense()
};

// Law: the copy holds the same rows, of the newest schema, without free pages, and is the only file: with a
// rollback journal and nothing to roll back, so that it can be read where nothing may be written. It is there
// whole or not at all; it was opened and checked before it took its name. An older database is migrated in
// the copy alone.
// @throws StoreError, kReadonly if the copy is there and `replace` is false, kOutput if it is the database
// itself.
PublishedSize publish(const std::string& database, const std::string& copy, bool replace,
                      Copy what = Copy::kWhole);

}  // namespace lockstep::dashboard

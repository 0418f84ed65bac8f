// SPDX-License-Identifier: Apache-2.0
// Sequence: the cases of a run, numbered from 0. Round by round, each suite contributes `weight` of its
// cases, evenly spread, so that every prefix has of every suite its share, or one case less or more; --cases
// and --time both run prefixes of this one sequence.
#pragma once
#include <cstdint>
#include <vector>

#include "suites/core/suite.h"

namespace lockstep::suites {

struct Planned {
  const Suite* suite = nullptr;
  int64_t index = 0;  // within the suite
  bool operator==(const Planned&) const = default;
};

class Sequence {
 public:
  explicit Sequence(std::vector<const Suite*> chosen);

  // @pre 0 <= number < size()
  Planned at(int64_t number);
  // kEndless if any suite is.
  int64_t size() const { return size_; }
  // The cases in the first `rounds` rounds.
  int64_t rounds(int64_t rounds) const;

 private:
  void add_round();
  std::vector<const Suite*> chosen_;
  std::vector<Planned> numbered_;
  int64_t next_round_ = 0;
  int64_t size_ = 0;
};

}  // namespace lockstep::suites

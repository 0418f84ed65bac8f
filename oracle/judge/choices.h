// SPDX-License-Identifier: Apache-2.0
// Choices: of a run that can go two ways at some of its places, all ways, one run after the other.
#pragma once
#include <vector>

namespace lockstep::oracle {

// Law: runs that ask next() at each such place, until go_on() says no, take each way once, the one of no
// choice but false first. What a run meets may depend on what it chose.
class Choices {
 public:
  bool next() {
    if (met_ == taken_.size()) taken_.push_back(false);
    return taken_[met_++];
  }
  // After a run: whether there is another.
  bool go_on() {
    taken_.resize(met_);
    met_ = 0;
    while (!taken_.empty() && taken_.back()) taken_.pop_back();
    if (taken_.empty()) return false;
    return taken_.back() = true;
  }

 private:
  std::vector<bool> taken_;
  size_t met_ = 0;  // of these, in this run
};

}  // namespace lockstep::oracle

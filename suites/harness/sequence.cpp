// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/sequence.h"

#include <algorithm>
#include <utility>

#include "engine/values/error.h"

namespace lockstep::suites {

Sequence::Sequence(std::vector<const Suite*> chosen) : chosen_(std::move(chosen)) {
  LOCKSTEP_CHECK(!chosen_.empty(), "[run] no suite chosen; `lockstep list` names them");
  for (const auto* s : chosen_)
    size_ = s->limit == kEndless || size_ == kEndless ? kEndless : size_ + s->limit;
}

Planned Sequence::at(int64_t number) {
  if (number < 0 || number >= size_) throw Broken(concat("[sequence] no case ", number, " of ", size_));
  while (number >= std::ssize(numbered_)) add_round();
  return numbered_[static_cast<size_t>(number)];
}

int64_t Sequence::rounds(int64_t rounds) const {
  int64_t total = 0;
  for (const auto* s : chosen_) total += std::min(s->limit, rounds * s->weight);
  return total;
}

void Sequence::add_round() {
  struct Placed {
    double at;  // of the round, which is 1
    Planned planned;
  };
  std::vector<Placed> round;
  for (const auto* s : chosen_) {
    const int64_t begin = std::min(s->limit, next_round_ * s->weight);
    const int64_t end = s->limit - begin < s->weight ? s->limit : begin + s->weight;
    for (int64_t i = begin; i < end; ++i)
      round.push_back({(static_cast<double>(i - begin) + 0.5) / static_cast<double>(s->weight), {s, i}});
  }
  // Suites that are level come as in the table, however they were named.
  std::sort(round.begin(), round.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.at, a.planned.suite) < std::pair(b.at, b.planned.suite);
  });
  for (const auto& placed : round) numbered_.push_back(placed.planned);
  ++next_round_;
}

}  // namespace lockstep::suites

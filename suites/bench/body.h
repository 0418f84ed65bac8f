// SPDX-License-Identifier: Apache-2.0
// Body: one thing that `lockstep bench` measures. It checks its bits before it is timed: how fast a wrong
// answer comes is of no interest.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/store/rows.h"

namespace lockstep::suites {

// A body computes other bits than it should. Exit code 1 of `lockstep bench`.
struct WrongBits : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws WrongBits that names `who` unless both have the same dtypes, shapes and bits.
void check_bits(const std::string& who, const std::vector<at::Tensor>& expected,
                const std::vector<at::Tensor>& actual);

// What a process needs to sample a body, made once.
struct Prepared {
  std::function<void()> check{};           // throws WrongBits
  std::function<double(double)> sample{};  // one value; timed: from at least so many seconds of work
  // Timed bodies: one call of what is timed. Its instructions are counted where a tool can; empty: they are
  // not.
  std::function<void()> once{};
};

struct Body {
  dashboard::Series series;  // counted: sample() gives the same value in every process
  std::function<Prepared()> prepare;
};

using Bodies = std::vector<Body>;

// Every body of this version, in a fixed order. Names are stored and compared across versions: a body whose
// work changes takes a new name.
const Bodies& bodies();

// Each area's, for bodies().
void add_dispatch(Bodies& bodies);
void add_rungs(Bodies& bodies);
void add_redistribute(Bodies& bodies);
void add_reductions(Bodies& bodies);
void add_random(Bodies& bodies);
void add_cases(Bodies& bodies);
void add_small_cases(Bodies& bodies);
void add_training(Bodies& bodies);
void add_training_rungs(Bodies& bodies);
void add_formats(Bodies& bodies);
void add_padding(Bodies& bodies);
void add_scaling(Bodies& bodies);
void add_store(Bodies& bodies);

// The series that counts the instructions of a timed one.
dashboard::Series instructions_of(const dashboard::Series& timed);

}  // namespace lockstep::suites

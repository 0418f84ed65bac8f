// SPDX-License-Identifier: Apache-2.0
#include "suites/bench/body.h"

namespace lockstep::suites {
namespace {

Bodies make_bodies() {
  Bodies all;
  add_dispatch(all);
  add_redistribute(all);
  add_random(all);
  add_cases(all);
  add_small_cases(all);
  add_training(all);
  add_store(all);
  return all;
}

}  // namespace

const Bodies& bodies() {
  static const Bodies all = make_bodies();
  return all;
}

dashboard::Series instructions_of(const dashboard::Series& timed) {
  return {timed.name + ": instructions", timed.area, true, false, "instructions"};
}

}  // namespace lockstep::suites

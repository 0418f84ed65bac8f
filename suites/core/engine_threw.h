// SPDX-License-Identifier: Apache-2.0
// What engine code threw, told apart from what the oracle throws beside it.
#pragma once
#include <c10/util/Exception.h>

#include <stdexcept>
#include <string>

#include "engine/values/refused.h"

namespace lockstep::suites {

struct EngineThrew : std::runtime_error {
  EngineThrew(std::string who, const std::string& what) : std::runtime_error(what), op(std::move(who)) {}
  std::string op;  // "": none is known
};

template <class F>
auto in_engine(F&& f) {
  try {
    return f();
  } catch (const EngineThrew&) {
    throw;
  } catch (const c10::AcceleratorError&) {
    throw;  // the device itself failed
  } catch (const Refused& e) {
    throw EngineThrew(e.op, e.what());
  } catch (const std::exception& e) {
    throw EngineThrew("", e.what());
  }
}

}  // namespace lockstep::suites

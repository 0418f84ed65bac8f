// SPDX-License-Identifier: Apache-2.0
// The errors that Lockstep throws, and the one macro that throws them. Messages name the op, the values, the
// remedy.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep {

// A mistake of the caller: a bad shape, a bad placement, a malformed text. Exit code 2 of the program.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Legal by the design, not built in this version. Exit code 2 of the program, with a message that says so.
struct NotBuilt : Error {
  using Error::Error;
};

// A kernel of libtorch's refused what one rank gave it, where one device's may have taken the whole: a
// mistake of the caller, or of a rule.
struct KernelError : Error {
  KernelError(std::string who, const std::string& problem)
      : Error("[" + who + "] " + problem), op(std::move(who)) {}
  std::string op;  // as it is dispatched, with overload
};

// Lockstep itself is broken: an invariant does not hold. Exit code 3 of the program.
struct Broken : std::logic_error {
  using std::logic_error::logic_error;
};

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace lockstep

// Throws lockstep::Error with the message made of the remaining arguments unless the condition holds.
#define LOCKSTEP_CHECK(condition, ...)                                          \
  do {                                                                          \
    if (!(condition)) throw ::lockstep::Error(::lockstep::concat(__VA_ARGS__)); \
  } while (false)

// SPDX-License-Identifier: Apache-2.0
// The switch of mutants that ci/mutate weaves into a copy of the tree: LOCKSTEP_MUTANT is the number of the
// one that is on, none without it. Not part of any build but that one.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// What is woven in reads like a slip, and compilers say so.
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wfloat-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wbool-operation"
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wunused"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wdangling-else"
#pragma GCC diagnostic ignored "-Wmisleading-indentation"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wreturn-type"
#pragma GCC diagnostic ignored "-Wnarrowing"
#pragma GCC diagnostic ignored "-Wduplicated-branches"
#pragma GCC diagnostic ignored "-Waddress"
#pragma GCC diagnostic ignored "-Wignored-qualifiers"
#pragma GCC diagnostic ignored "-Woverflow"
#pragma GCC diagnostic ignored "-Wdiv-by-zero"
#pragma GCC diagnostic ignored "-Wpessimizing-move"
#pragma GCC diagnostic ignored "-Wredundant-move"
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wstringop-overflow"

inline int lockstep_chosen_mutant = 0;
// A byte for each number, 1 where its place was run: the file LOCKSTEP_MUTANT_PLACES, shared with all
// processes of the run. Null without it.
inline char* lockstep_places = nullptr;
inline int lockstep_places_size = 0;

inline void lockstep_open_places(const char* path) {
  struct stat file {};
  const int at = open(path, O_RDWR);
  if (at < 0 || fstat(at, &file) != 0) std::abort();
  void* bytes = mmap(nullptr, static_cast<size_t>(file.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, at, 0);
  if (bytes == MAP_FAILED) std::abort();
  lockstep_places = static_cast<char*>(bytes);
  lockstep_places_size = static_cast<int>(file.st_size);
  close(at);
}

// Before any initialiser of a static variable: tables of rules are such.
[[gnu::constructor(101)]] inline void lockstep_choose_mutant() {
  const char* number = std::getenv("LOCKSTEP_MUTANT");
  lockstep_chosen_mutant = number == nullptr ? 0 : std::atoi(number);
  const char* places = std::getenv("LOCKSTEP_MUTANT_PLACES");
  if (places != nullptr && lockstep_places == nullptr) lockstep_open_places(places);
}

// The op that the engine dispatches; ci/mutate weaves in who sets it.
inline thread_local const char* lockstep_running_op = "";

// The mutant that is on was reached: under which ops, a line for each, goes to the file LOCKSTEP_MUTANT_OPS.
[[gnu::cold, gnu::noinline]] inline void lockstep_reached() {
  static std::mutex mutex;
  static std::set<std::string> known;
  const std::lock_guard lock(mutex);
  const char* file = std::getenv("LOCKSTEP_MUTANT_OPS");
  if (file == nullptr || !known.insert(lockstep_running_op).second) return;
  if (std::FILE* out = std::fopen(file, "a")) {
    std::fprintf(out, "%s\n", lockstep_running_op);
    std::fclose(out);
  }
}

inline bool lockstep_mutant(int number) {
  if (lockstep_places != nullptr && number < lockstep_places_size) lockstep_places[number] = 1;
  if (lockstep_chosen_mutant != number) return false;
  lockstep_reached();
  return true;
}

// For constexpr functions: where the compiler computes, no mutant is on.
constexpr bool lockstep_mutant_unless_constant(int number) {
  return !std::is_constant_evaluated() && lockstep_mutant(number);
}

// A range as it is, or from its end.
template <class Range>
class LockstepOrder {
 public:
  using Place = decltype(std::begin(std::declval<std::remove_reference_t<Range>&>()));
  LockstepOrder(bool reversed, Range&& range) : range_(std::forward<Range>(range)) {
    if (!reversed) return;
    for (auto at = std::begin(range_); at != std::end(range_); ++at) places_.insert(places_.begin(), at);
    reversed_ = true;
  }
  struct Iterator {
    Place plain;
    const Place* turned;  // null: plain
    decltype(auto) operator*() const { return turned != nullptr ? **turned : *plain; }
    Iterator& operator++() {
      turned != nullptr ? static_cast<void>(++turned) : static_cast<void>(++plain);
      return *this;
    }
    bool operator!=(const Iterator& other) const {
      return turned != nullptr ? turned != other.turned : plain != other.plain;
    }
  };
  Iterator begin() { return {std::begin(range_), reversed_ ? places_.data() : nullptr}; }
  Iterator end() { return {std::end(range_), reversed_ ? places_.data() + places_.size() : nullptr}; }

 private:
  Range range_;
  std::vector<Place> places_;
  bool reversed_ = false;
};
template <class Range>
LockstepOrder<Range> lockstep_in_order(bool reversed, Range&& range) {
  return {reversed, std::forward<Range>(range)};
}

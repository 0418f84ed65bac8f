// SPDX-License-Identifier: Apache-2.0
// The switch of mutants that ci/mutate weaves into a copy of the tree: LOCKSTEP_MUTANT has the numbers of
// those that are on, commas between; none without it. Not part of any build but that one.
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

// Whether a number is on, and how many are.
inline char lockstep_mutants_on[1 << 16];
inline int lockstep_how_many_on = 0;

// A file in memory; null where the variable is not set.
struct LockstepBytes {
  char* at = nullptr;
  long size = 0;
  void open(const char* variable) {
    const char* path = std::getenv(variable);
    if (path == nullptr || at != nullptr) return;
    struct stat file {};
    const int descriptor = ::open(path, O_RDWR);
    if (descriptor < 0 || fstat(descriptor, &file) != 0) std::abort();
    void* bytes =
        mmap(nullptr, static_cast<size_t>(file.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (bytes == MAP_FAILED) std::abort();
    at = static_cast<char*>(bytes);
    size = file.st_size;
    close(descriptor);
  }
};

// A byte for each number, shared with all processes of the run: 1 where its place was run.
inline LockstepBytes lockstep_places;
// The same of this process, since the case began.
inline char* lockstep_here = nullptr;
// A byte for each case of the plan: 0 where it is left out. All are run without it.
inline LockstepBytes lockstep_wanted;
// The same: what came of it, from 1; 0: it has not ended.
inline LockstepBytes lockstep_verdicts;
// Eight bytes: how far the plan is, the number of the case that began last, from 1.
inline LockstepBytes lockstep_far;

// Before any initialiser of a static variable: tables of rules are such.
[[gnu::constructor(101)]] inline void lockstep_choose_mutant() {
  const char* numbers = std::getenv("LOCKSTEP_MUTANT");
  while (numbers != nullptr && *numbers != 0) {
    char* end = nullptr;
    const unsigned long number = std::strtoul(numbers, &end, 10);
    if (end == numbers || number >= sizeof lockstep_mutants_on) std::abort();
    lockstep_how_many_on += number != 0 && std::exchange(lockstep_mutants_on[number], 1) == 0;
    numbers = *end == ',' ? end + 1 : end;
  }
  lockstep_mutants_on[0] = 0;
  lockstep_places.open("LOCKSTEP_MUTANT_PLACES");
  lockstep_wanted.open("LOCKSTEP_MUTANT_CASES");
  lockstep_verdicts.open("LOCKSTEP_MUTANT_VERDICTS");
  lockstep_far.open("LOCKSTEP_MUTANT_FAR");
  if (lockstep_places.at != nullptr && lockstep_here == nullptr)
    lockstep_here = static_cast<char*>(std::calloc(static_cast<size_t>(lockstep_places.size), 1));
}

// A line of the file beside the places: a case, -1 for what is outside of all, and the numbers whose places
// it ran.
inline void lockstep_tell_places(long number) {
  std::string line = std::to_string(number);
  for (long at = 0; at < lockstep_places.size; ++at)
    if (std::exchange(lockstep_here[at], 0) != 0) line += " " + std::to_string(at);
  line += "\n";
  const std::string path = std::string(std::getenv("LOCKSTEP_MUTANT_PLACES")) + ".cases";
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
  if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  close(file);
}

// ci/mutate weaves in where a case begins, and -1 where the last has ended.
// @returns whether it is to be run
inline bool lockstep_case_begins(long number) {
  static long running = -1;
  if (lockstep_here != nullptr) lockstep_tell_places(running);
  running = number;
  const bool wanted = number < 0 || number >= lockstep_wanted.size || lockstep_wanted.at[number] != 0;
  if (number >= 0 && wanted && lockstep_far.at != nullptr)
    *reinterpret_cast<long*>(lockstep_far.at) = number + 1;
  return wanted;
}

// And where its verdict is known, and how many bytes have moved, of which four bits of a hash tell most
// changes.
inline void lockstep_case_ended(long number, int verdict, long moved) {
  if (lockstep_verdicts.at == nullptr) return;
  if (number >= lockstep_verdicts.size) std::abort();
  const unsigned long hash = static_cast<unsigned long>(moved) * 0x9e3779b97f4a7c15ul >> 60;
  lockstep_verdicts.at[number] = static_cast<char>(static_cast<unsigned long>(verdict + 1) | hash << 4);
}

// Where several are on, it is asked which cases fail, and what of: nothing is shrunk.
inline bool lockstep_shrinks_nothing() {
  return lockstep_how_many_on > 1;
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
  if (lockstep_here != nullptr && number < lockstep_places.size)
    lockstep_places.at[number] = lockstep_here[number] = 1;
  if (lockstep_mutants_on[number] == 0) return false;
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

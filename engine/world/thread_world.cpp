// SPDX-License-Identifier: Apache-2.0
#include "engine/world/thread_world.h"

#include <exception>
#include <thread>

#include "engine/context/context.h"
#include "engine/values/as_size.h"

namespace lockstep {
namespace {

bool tells_more(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const RankLost&) {
    return false;
  } catch (...) {
    return true;
  }
}

std::string what(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception of a kind of its own";
  }
}

void rethrow_first(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr first;
  for (const auto& error : errors)
    if (error != nullptr && (first == nullptr || (!tells_more(first) && tells_more(error)))) first = error;
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace

void run_on_threads(int64_t n, Patience patience, const std::function<void(const WorldPtr& world)>& body) {
  LOCKSTEP_CHECK(n >= 1, "[run_on_threads] a world needs at least one rank, not ", n);
  const auto board = std::make_shared<Board>(n, up_to(n), patience);
  std::vector<std::exception_ptr> errors(as_size(n));
  const auto parent = current_context();
  std::vector<std::jthread> threads;
  for (int64_t rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      const ContextScope own(child_of(*parent));
      try {
        body(board_world("thread", board, {rank}, [](const std::vector<Posted>&) {}));
      } catch (...) {
        errors[as_size(rank)] = std::current_exception();
      }
      board->end(rank, errors[as_size(rank)] ? what(errors[as_size(rank)]) : "its program is done");
    });
  threads.clear();
  rethrow_first(errors);
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "engine/world/thread_world.h"

#include <ATen/ATen.h>

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "engine/context/context.h"
#include "engine/values/as_size.h"
#include "engine/values/text.h"
#include "engine/world/ask.h"
#include "engine/world/bits.h"

namespace lockstep {
namespace {

// Exchanges are counted for each group, which is the same for all of its ranks.
struct Key {
  std::vector<int64_t> ranks;
  int64_t number = 0;
  auto operator<=>(const Key&) const = default;
  std::string text() const { return concat("exchange ", number, " of ranks ", join(ranks, ',')); }
};

// What one rank brings to an exchange. It is read by the threads of the others, and written by none.
struct Post {
  std::vector<Ask> asks;     // by place
  std::vector<Parcel> sent;  // copies, so that the sender need not wait for its readers
};
using PostPtr = std::shared_ptr<const Post>;

Post post_of(const char* op, const Part& part) {
  Post post;
  for (size_t place = 0; place < part.group->ranks.size(); ++place)
    post.asks.push_back(ask(op, part, static_cast<int64_t>(place)));
  for (const auto& parcel : part.sent) post.sent.push_back({parcel.place, parcel.tensor.detach().clone()});
  return post;
}

// Where ranks meet. Safe to use from all of their threads.
class Board {
 public:
  Board(int64_t n, std::chrono::milliseconds patience) : patience_(patience), ranks_(as_size(n)) {}
  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }

  void post(const Key& key, const char* op, int64_t place, Post post) {
    const std::lock_guard lock(mutex_);
    auto& meeting = meetings_[key];
    meeting.posts.resize(key.ranks.size());
    meeting.posts[as_size(place)] = std::make_shared<const Post>(std::move(post));
    ranks_[as_size(key.ranks[as_size(place)])].last = concat(op, ", ", key.text());
    changed_.notify_all();
  }

  // What all ranks of the group have posted. Throws RankLost once one that is missing has ended, or the
  // patience has.
  std::vector<PostPtr> meet(const Key& key, const char* op, int64_t place) {
    std::unique_lock lock(mutex_);
    auto& meeting = meetings_[key];
    const auto deadline = std::chrono::steady_clock::now() + patience_;
    const auto settled = [&] { return missing(key, meeting) < 0 || ended_among(key, meeting) >= 0; };
    changed_.wait_until(lock, deadline, settled);
    if (const int64_t rank = ended_among(key, meeting); rank >= 0)
      lost(key, op, place, rank, concat("has ended: ", *ranks_[as_size(rank)].ended));
    if (const int64_t rank = missing(key, meeting); rank >= 0)
      lost(key, op, place, rank, concat("did not come within ", patience_.count(), " ms"));
    auto posts = meeting.posts;
    if (++meeting.readers == key.ranks.size()) meetings_.erase(key);
    return posts;
  }

  void end(int64_t rank, std::string why) {
    const std::lock_guard lock(mutex_);
    ranks_[as_size(rank)].ended = std::move(why);
    changed_.notify_all();
  }

 private:
  struct Meeting {
    std::vector<PostPtr> posts;  // by place; null: not yet
    size_t readers = 0;
  };
  struct Rank {
    std::string last = "none";         // the exchange that it came to
    std::optional<std::string> ended;  // why
  };

  // The first rank that has not posted; -1: none.
  static int64_t missing(const Key& key, const Meeting& meeting) {
    for (size_t place = 0; place < key.ranks.size(); ++place)
      if (meeting.posts[place] == nullptr) return key.ranks[place];
    return -1;
  }
  int64_t ended_among(const Key& key, const Meeting& meeting) const {
    for (size_t place = 0; place < key.ranks.size(); ++place)
      if (meeting.posts[place] == nullptr && ranks_[as_size(key.ranks[place])].ended) return key.ranks[place];
    return -1;
  }
  [[noreturn]] void lost(const Key& key, const char* op, int64_t place, int64_t rank,
                         const std::string& why) const {
    throw RankLost(concat("[", op, "] ", key.text(), ": rank ", key.ranks[as_size(place)], " waits for rank ",
                          rank, ", which ", why, "; the last that it came to is ",
                          ranks_[as_size(rank)].last));
  }

  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Rank> ranks_;
  std::map<Key, Meeting> meetings_;
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(std::shared_ptr<Board> board, int64_t rank)
      : World("thread", board->size(), {rank}), board_(std::move(board)) {}

  Work exchange(Exchange asked) override {
    LOCKSTEP_CHECK(asked.parts.size() == 1 && asked.parts[0].group->self() == hosted()[0], "[", asked.op,
                   "] the world of rank ", hosted()[0], " moves nothing for other ranks");
    const char* op = asked.op;
    const Group& group = *asked.parts[0].group;
    const Key key{group.ranks, ++begun_[group.ranks]};
    auto mine = post_of(op, asked.parts[0]);
    auto asks = mine.asks;
    board_->post(key, op, group.place, std::move(mine));
    return Work(op, [board = board_, key, asked = std::move(asked), asks = std::move(asks)] {
      deliver(asked, key, asks, board->meet(key, asked.op, asked.parts[0].group->place));
    });
  }

 private:
  // The parcels of each rank come in the order in which it lists them.
  static void deliver(const Exchange& asked, const Key& key, const std::vector<Ask>& asks,
                      const std::vector<PostPtr>& posts) {
    const auto& part = asked.parts[0];
    const int64_t own = part.group->place;
    for (size_t place = 0; place < posts.size(); ++place)
      agree(key.text(), part.group->self(), asks[place], key.ranks[place], posts[place]->asks[as_size(own)]);
    std::vector<size_t> next(posts.size());
    for (size_t k = 0; k < part.received.size(); ++k) {
      const auto& [place, into] = part.received[k];
      const auto& sent = posts[as_size(place)]->sent;
      auto& i = next[as_size(place)];
      while (sent[i].place != own) ++i;
      const auto& parcel = sent[i++].tensor;
      if (asked.arrived)
        asked.arrived(0, k, parcel);
      else
        copy_bits(into, parcel);
    }
  }

  std::shared_ptr<Board> board_;
  std::map<std::vector<int64_t>, int64_t> begun_;  // exchanges, by group
};

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

void run_on_threads(int64_t n, const std::function<void(const WorldPtr& world)>& body,
                    std::chrono::milliseconds patience) {
  LOCKSTEP_CHECK(n >= 1, "[run_on_threads] a world needs at least one rank, not ", n);
  const auto board = std::make_shared<Board>(n, patience);
  std::vector<std::exception_ptr> errors(as_size(n));
  const auto parent = current_context();
  std::vector<std::jthread> threads;
  for (int64_t rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      const ContextScope own(child_of(*parent));
      try {
        body(std::make_shared<ThreadWorld>(board, rank));
      } catch (...) {
        errors[as_size(rank)] = std::current_exception();
      }
      board->end(rank, errors[as_size(rank)] ? what(errors[as_size(rank)]) : "its program is done");
    });
  threads.clear();
  rethrow_first(errors);
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Board: where ranks meet that share no thread. Each posts what it brings to an exchange, and takes what its
// group has posted; one that ends or does not come is named to those that wait for it.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <typeinfo>
#include <vector>

#include "engine/values/error.h"
#include "engine/world/ask.h"

namespace lockstep {

using Patience = std::chrono::milliseconds;
inline Patience patience_of(double seconds) {
  return Patience(static_cast<int64_t>(seconds * 1000));
}

// Another rank did not come to an exchange: it has ended, or is late.
struct RankLost : Error {
  using Error::Error;
};

// Runs f. To what it throws where ranks do not meet, RankLost or Error itself, is added what more() says.
template <class More, class F>
auto saying(const More& more, const F& f) {
  try {
    return f();
  } catch (const RankLost& e) {
    throw RankLost(e.what() + more());
  } catch (const Error& e) {
    if (typeid(e) != typeid(Error)) throw;
    throw Error(e.what() + more());
  }
}

// Exchanges are counted for each group, which is the same for all of its ranks.
struct Meeting {
  std::vector<int64_t> ranks;
  int64_t number = 0;
  auto operator<=>(const Meeting&) const = default;
  std::string text() const;  // "exchange 3 of ranks 0,1"
};

// What one rank brings to an exchange. It is read by the threads of the others, and written by none.
struct Post {
  std::string op;
  std::vector<Ask> asks;     // by place; those of ranks that are hosted elsewhere may be empty
  std::vector<Parcel> sent;  // copies, so that the sender need not wait for its readers
};
using PostPtr = std::shared_ptr<const Post>;

Post post_of(const char* op, const Part& part);

// Safe to use from all threads.
class Board {
 public:
  // Of n ranks, of which those that take what is posted here are `readers`, ascending.
  Board(int64_t n, std::vector<int64_t> readers, Patience patience);
  int64_t size() const { return static_cast<int64_t>(ranks_.size()); }

  // What the place of a group brings.
  void post(const Meeting& meeting, int64_t place, PostPtr post);
  // What all ranks of the group have posted, for one of the readers. Throws RankLost once one that is missing
  // has ended, or the patience has.
  std::vector<PostPtr> meet(const Meeting& meeting, const char* op, int64_t place);
  // The rank comes no more.
  void end(int64_t rank, const std::string& why);

  // Where a rank runs, for messages; "" says nothing.
  void locate(int64_t rank, std::string where);
  // The rank waits for another one, -1: for none any more. Who loses patience with a rank that itself waits
  // names the one that it waits for. Readers of this board say so by themselves, and to `tell`, after half of
  // their patience.
  void waits(int64_t rank, int64_t other);
  void tell_waits(std::function<void(int64_t rank, int64_t other)> tell) { tell_ = std::move(tell); }

 private:
  struct Posts {
    std::vector<PostPtr> of;  // by place; null: not yet
    int64_t takers = 0;
  };
  struct Rank {
    std::string last = "none";         // the exchange that it came to
    std::optional<std::string> ended;  // why
    std::string where;
    int64_t waits_for = -1;
  };
  using Lock = std::unique_lock<std::mutex>;

  bool settled(const Meeting& meeting, const Posts& posts) const;
  int64_t missing(const Meeting& meeting, const Posts& posts, bool ended) const;
  int64_t readers_of(const Meeting& meeting) const;
  std::string named(int64_t rank) const;
  void wait(Lock& lock, const Meeting& meeting, const Posts& posts, int64_t rank);
  [[noreturn]] void lost(const Meeting& meeting, const char* op, int64_t rank, int64_t other) const;

  const std::vector<int64_t> readers_;
  const Patience patience_;
  std::function<void(int64_t, int64_t)> tell_ = [](int64_t, int64_t) {};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Rank> ranks_;
  std::map<Meeting, Posts> meetings_;
};

// A World that hosts some of the ranks of a board, ascending. `publish` is given what they bring to an
// exchange, once it is on the board.
struct Posted {
  Meeting meeting;
  int64_t place = 0;
  PostPtr post;
};
using Publish = std::function<void(const std::vector<Posted>& posts)>;
WorldPtr board_world(std::string name, std::shared_ptr<Board> board, std::vector<int64_t> hosted,
                     Publish publish);

}  // namespace lockstep

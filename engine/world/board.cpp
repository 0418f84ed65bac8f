// SPDX-License-Identifier: Apache-2.0
#include "engine/world/board.h"

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/text.h"

namespace lockstep {

std::string Meeting::text() const {
  return concat("exchange ", number, " of ranks ", join(ranks, ','));
}

Post post_of(const char* op, const Part& part) {
  Post post{op, {}, {}};
  for (size_t place = 0; place < part.group->ranks.size(); ++place)
    post.asks.push_back(ask(op, part, static_cast<int64_t>(place)));
  for (const auto& parcel : part.sent) post.sent.push_back({parcel.place, parcel.tensor().detach().clone()});
  return post;
}

Board::Board(int64_t n, std::vector<int64_t> readers, Patience patience)
    : readers_(std::move(readers)), patience_(patience), ranks_(as_size(n)) {}

void Board::post(const Meeting& meeting, int64_t place, PostPtr post) {
  const std::lock_guard lock(mutex_);
  ranks_.at(as_size(meeting.ranks.at(as_size(place)))).last = concat(post->op, ", ", meeting.text());
  auto& posts = meetings_[meeting];
  posts.of.resize(meeting.ranks.size());
  posts.of[as_size(place)] = std::move(post);
  changed_.notify_all();
}

std::vector<PostPtr> Board::meet(const Meeting& meeting, const char* op, int64_t place) {
  Lock lock(mutex_);
  auto& posts = meetings_[meeting];
  posts.of.resize(meeting.ranks.size());
  const int64_t rank = meeting.ranks[as_size(place)];
  wait(lock, meeting, posts, rank);
  if (const int64_t other = missing(meeting, posts, true); other >= 0) lost(meeting, op, rank, other);
  if (const int64_t other = missing(meeting, posts, false); other >= 0) lost(meeting, op, rank, other);
  auto all = posts.of;
  if (++posts.takers == readers_of(meeting)) meetings_.erase(meeting);
  return all;
}

void Board::wait(Lock& lock, const Meeting& meeting, const Posts& posts, int64_t rank) {
  const auto began = std::chrono::steady_clock::now();
  const auto done = [&] { return settled(meeting, posts); };
  const auto say = [&](int64_t other) {
    ranks_[as_size(rank)].waits_for = other;
    lock.unlock();
    tell_(rank, other);
    lock.lock();
  };
  if (changed_.wait_until(lock, began + patience_ / 2, done)) return;
  say(missing(meeting, posts, false));
  if (changed_.wait_until(lock, began + patience_, done)) say(-1);
}

void Board::end(int64_t rank, const std::string& why) {
  const std::lock_guard lock(mutex_);
  auto& ended = ranks_.at(as_size(rank)).ended;
  if (!ended) ended = why;
  changed_.notify_all();
}

void Board::locate(int64_t rank, std::string where) {
  const std::lock_guard lock(mutex_);
  ranks_.at(as_size(rank)).where = std::move(where);
}

void Board::waits(int64_t rank, int64_t other) {
  const std::lock_guard lock(mutex_);
  ranks_.at(as_size(rank)).waits_for = other;
}

bool Board::settled(const Meeting& meeting, const Posts& posts) const {
  return missing(meeting, posts, false) < 0 || missing(meeting, posts, true) >= 0;
}

// The first rank that has not posted, of those that have ended or of all; -1: none.
int64_t Board::missing(const Meeting& meeting, const Posts& posts, bool ended) const {
  for (size_t place = 0; place < meeting.ranks.size(); ++place)
    if (const int64_t rank = meeting.ranks[place];
        posts.of[place] == nullptr && (!ended || ranks_[as_size(rank)].ended))
      return rank;
  return -1;
}

int64_t Board::readers_of(const Meeting& meeting) const {
  return std::count_if(meeting.ranks.begin(), meeting.ranks.end(), [&](int64_t rank) {
    return std::binary_search(readers_.begin(), readers_.end(), rank);
  });
}

std::string Board::named(int64_t rank) const {
  const auto& where = ranks_[as_size(rank)].where;
  return concat("rank ", rank, where.empty() ? "" : concat(" (", where, ")"));
}

// Names the one that keeps all of those waiting that wait for each other.
void Board::lost(const Meeting& meeting, const char* op, int64_t rank, int64_t other) const {
  auto text = concat("[", op, "] ", meeting.text(), ": ", named(rank), " waits for ", named(other));
  std::vector<int64_t> seen{rank};
  while (!ranks_[as_size(other)].ended && ranks_[as_size(other)].waits_for >= 0 &&
         std::find(seen.begin(), seen.end(), other) == seen.end()) {
    seen.push_back(other);
    other = ranks_[as_size(other)].waits_for;
    text += concat(", which waits for ", named(other));
  }
  const auto& last = ranks_[as_size(other)];
  throw RankLost(concat(text, ", which ",
                        last.ended ? concat("has ended: ", *last.ended)
                                   : concat("did not come within ", patience_.count(), " ms"),
                        "; the last that it came to is ", last.last));
}

}  // namespace lockstep

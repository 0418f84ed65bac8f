// SPDX-License-Identifier: Apache-2.0
// The World of ranks that meet on a board.
#include <ATen/ATen.h>

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/world/bits.h"
#include "engine/world/board.h"

namespace lockstep {
namespace {

bool sends(const Part& part, const at::Tensor& memory) {
  return std::any_of(part.sent.begin(), part.sent.end(),
                     [&](const Parcel& parcel) { return overlap(parcel.tensor(), memory); });
}

// Of what is to be written, what nobody sends from here too.
template <class F>
void each_to_fill(const Exchange& asked, F&& f) {
  if (asked.arrived) return;
  for (const auto& part : asked.parts)
    for (const auto& parcel : part.received)
      if (const auto into = parcel.tensor(); !sends(part, into)) f(part, into);
}

// Nobody has touched what is in flight. What was sent is on the board, as it was.
void inspect(const Exchange& asked, const std::vector<Posted>& mine) {
  for (size_t i = 0; i < mine.size(); ++i)
    for (size_t k = 0; k < asked.parts[i].sent.size(); ++k) {
      const auto sent = asked.parts[i].sent[k].tensor();
      LOCKSTEP_CHECK(same_bits(sent, mine[i].post->sent[k].tensor()), "[", asked.op, "] a tensor that rank ",
                     asked.parts[i].group->self(), " sends, ", form(sent),
                     ", was written before the exchange was waited for");
    }
  each_to_fill(asked, [&](const Part& part, const at::Tensor& into) {
    LOCKSTEP_CHECK(is_poisoned(into), "[", asked.op, "] what rank ", part.group->self(), " receives, ",
                   form(into), ", was written before the exchange was waited for");
  });
}

// The parcels of each rank come in the order in which it lists them.
void deliver(const Exchange& asked, size_t i, const Posted& mine, const std::vector<PostPtr>& posts) {
  const auto& part = asked.parts[i];
  const int64_t own = part.group->place;
  for (size_t place = 0; place < posts.size(); ++place)
    agree(mine.meeting.text(), part.group->self(), mine.post->asks[place], mine.meeting.ranks[place],
          posts[place]->asks[as_size(own)]);
  std::vector<size_t> next(posts.size());
  for (size_t k = 0; k < part.received.size(); ++k) {
    const auto& [place, into] = part.received[k];
    const auto& sent = posts[as_size(place)]->sent;
    auto& n = next[as_size(place)];
    while (sent[n].place != own) ++n;
    const auto parcel = sent[n++].tensor();
    if (asked.arrived)
      asked.arrived(i, k, parcel);
    else
      copy_bits(into, parcel);
  }
}

class BoardWorld final : public World {
 public:
  BoardWorld(std::string name, std::shared_ptr<Board> board, std::vector<int64_t> hosted, Publish publish)
      : World(std::move(name), board->size(), std::move(hosted)),
        board_(std::move(board)),
        publish_(std::move(publish)) {}

  Work exchange(Exchange asked) override {
    std::vector<Posted> mine;
    for (const auto& part : asked.parts) {
      LOCKSTEP_CHECK(std::binary_search(hosted().begin(), hosted().end(), part.group->self()), "[", asked.op,
                     "] the world of rank ", hosted().at(0), " moves nothing for rank ", part.group->self());
      auto& begun = begun_[{part.group->ranks, part.group->place}];
      mine.push_back({{part.group->ranks, ++begun},
                      part.group->place,
                      std::make_shared<const Post>(post_of(asked.op, part))});
    }
    for (const auto& [meeting, place, post] : mine) board_->post(meeting, place, post);
    publish_(mine);
    const char* op = asked.op;
    const bool checks = checks_in_flight;
    if (checks) each_to_fill(asked, [](const Part&, const at::Tensor& into) { poison(into); });
    return Work(op, [board = board_, asked = std::move(asked), mine = std::move(mine), checks] {
      if (checks) inspect(asked, mine);
      for (size_t i = 0; i < mine.size(); ++i)
        deliver(asked, i, mine[i], board->meet(mine[i].meeting, asked.op, mine[i].place));
    });
  }

 private:
  std::shared_ptr<Board> board_;
  Publish publish_;
  std::map<std::pair<std::vector<int64_t>, int64_t>, int64_t> begun_;  // exchanges, by group and place
};

}  // namespace

WorldPtr board_world(std::string name, std::shared_ptr<Board> board, std::vector<int64_t> hosted,
                     Publish publish) {
  return std::make_shared<BoardWorld>(std::move(name), std::move(board), std::move(hosted),
                                      std::move(publish));
}

}  // namespace lockstep

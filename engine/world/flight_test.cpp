// SPDX-License-Identifier: Apache-2.0
// What ranks did last: kept, written, read back, and held against each other.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/context/asking.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/collectives.h"
#include "engine/world/comm.h"
#include "engine/world/flight_files.h"
#include "engine/world/testing_conformance.h"
#include "engine/world/thread_world.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

Work gather(World& world, const Groups& groups, int64_t size = 2) {
  const PerRank<at::Tensor> sent(groups.size(), at::zeros({size}));
  return all_gather(world, groups, sent, [](size_t, const at::Tensor&) {});
}

std::vector<Flight> flights_of(const FlightMemory& memory, int64_t ranks) {
  std::vector<Flight> flights;
  for (int64_t r = 0; r < ranks; ++r) flights.push_back(flight_of(memory.of(r), r, ranks, "here", "v1:x#0"));
  return flights;
}

// Three ranks in this thread, recorded.
struct Three {
  std::shared_ptr<FlightMemory> memory = std::make_shared<FlightMemory>(3);
  WorldPtr world = recorded(local_world(3), memory);
  Comm comm{DeviceMesh({3}), world};
};

// Catches: a recorder that changes what is moved.
TEST(Flight, TheRecorderConforms) {
  const auto memory = std::make_shared<FlightMemory>(6);
  EXPECT_EQ(world_conformance(recorded(local_world(6), memory), DeviceMesh({2, 3})), "");
}

// Catches: a state that is set too early, or for an exchange that took the place in the ring; an op that asks
// when it has ended.
TEST(Flight, KeepsHowFarAnExchangeHasCome) {
  Three t;
  const auto state = [&](size_t k) { return flights_of(*t.memory, 3)[1].entries.at(k).state; };
  {
    const Asking asks("aten::mm");
    gather(*t.world, t.comm.whole).wait();
    auto work = gather(*t.world, t.comm.whole);
    EXPECT_EQ(state(0), FlightState::kDone);
    EXPECT_EQ(state(1), FlightState::kBegun);
    work.wait();
    EXPECT_EQ(state(1), FlightState::kDone);
  }
  gather(*t.world, t.comm.whole).wait();
  const auto entries = flights_of(*t.memory, 3)[1].entries;
  EXPECT_EQ(entries[1].asker, "aten::mm");
  EXPECT_EQ(entries[2].asker, "");
  const auto& entry = entries[0];
  EXPECT_EQ(entry.number, 1);
  EXPECT_EQ(entry.meeting, 1);
  EXPECT_EQ(entry.asker, "aten::mm");
  EXPECT_EQ(entry.op, "all_gather");
  EXPECT_EQ(entry.ranks, "0,1,2");
  EXPECT_EQ(entry.sends, "0:f32[2] 2:f32[2]");
  EXPECT_EQ(entry.sent, 16);
  auto old = gather(*t.world, t.comm.whole);
  for (int64_t k = 0; k < FlightRing::kLength; ++k) gather(*t.world, t.comm.whole).wait();
  old.wait();
  const auto flight = flights_of(*t.memory, 3)[0];
  EXPECT_EQ(flight.begun, FlightRing::kLength + 4);
  EXPECT_EQ(std::ssize(flight.entries), FlightRing::kLength);
  EXPECT_EQ(flight.entries.front().number, 5);
  EXPECT_EQ(split_of(flights_of(*t.memory, 3)), std::nullopt);
}

// Catches: what a process did that is lost with it.
TEST(Flight, OutlivesTheProcess) {
  const int fd = memfd_create("flights", 0);
  const FlightMemory memory(3, fd);
  const pid_t child = fork();
  if (child == 0) {
    const auto own = std::make_shared<FlightMemory>(3, fd);
    const Comm comm(DeviceMesh({3}), recorded(local_world(3), own));
    auto work = gather(*comm.world, comm.whole);
    kill(getpid(), SIGKILL);
    work.wait();
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  const auto flights = flights_of(memory, 3);
  ASSERT_EQ(flights[2].entries.size(), 1u);
  EXPECT_EQ(flights[2].entries[0].state, FlightState::kBegun);
  memory.clear(3);
  EXPECT_TRUE(flights_of(memory, 3)[2].entries.empty());
  EXPECT_THROW(memory.of(3), Error);
  close(fd);
}

// Catches: a text beyond its room, which ends the process or looks whole.
TEST(Flight, WhatIsTooLongIsCut) {
  const auto memory = std::make_shared<FlightMemory>(64);
  const Comm comm(DeviceMesh({64}), recorded(local_world(64), memory));
  const Asking asks("an_op_with_a_name_that_is_longer_than_any_that_libtorch_has");
  gather(*comm.world, comm.whole).wait();
  const auto flights = flights_of(*memory, 64);
  for (const auto* text :
       {&flights[0].entries[0].asker, &flights[0].entries[0].ranks, &flights[0].entries[0].sends})
    EXPECT_TRUE(text->ends_with('~')) << *text;
  EXPECT_EQ(flights[0].entries[0].sends.size(), sizeof(FlightRecord::sends) - 1);
  EXPECT_EQ(split_of(flights), std::nullopt);
}

// Catches: a file that reads back as another flight.
TEST(Flight, TextAndBack) {
  Three t;
  gather(*t.world, t.comm.whole).wait();
  gather(*t.world, t.comm.along[0], 0).wait();
  for (auto flight : flights_of(*t.memory, 3)) {
    const auto text = to_text(flight);
    EXPECT_EQ(to_text(parse_flight(text, "f")), text);
    flight.where.clear();
    flight.entries.clear();
    EXPECT_EQ(parse_flight(to_text(flight), "f").where, "");
  }
}

// Catches: a bad file that is taken for a flight, or whose error does not say where.
TEST(Flight, BadFilesAreTold) {
  Three t;
  gather(*t.world, t.comm.whole).wait();
  const auto good = to_text(flights_of(*t.memory, 3)[0]);
  const auto changed = [&](const std::string& what, const std::string& by) {
    auto text = good;
    return text.replace(text.find(what), what.size(), by);
  };
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "f is no flight"},
      {"SQLite format 3", "f is no flight"},
      {changed("flight\t1", "flight\t2"),
       "line 1: the file is of version 2, and this program reads version 1"},
      {changed("rank\t0\t3", "rank\t3\t3"), "line 2: there is no rank 3 of 3"},
      {good.substr(0, good.find("begun")), "line 5: the file ends early"},
      {changed("begun\t1\t1", "begun\t2\t1"), "line 6: an exchange is missing before it"},
      {changed("begun\t1\t1", "begun\t0\t1"), "more exchanges are kept than were begun"},
      {changed("\tdone\t", "\tover\t"), "line 6: 'over' is none of begun, waited and done"},
      {changed("0,1,2", "0,x,2"), "line 6: '0,x,2' are no ranks"},
      {changed("\t16\t", "\t-1\t"), "line 6: '-1' is no number of at least 0"},
      {changed("\t16\t", "\t"), "line 6: expected an exchange in 11 fields"},
      {good + "more\n", "there is more than the file says"},
  };
  for (const auto& [text, says] : bad) try {
      parse_flight(text, "f");
      ADD_FAILURE() << "no error: " << says;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
}

std::string split_text(const std::vector<Flight>& flights) {
  const auto split = split_of(flights);
  return split ? describe(*split) : "";
}

// Three exchanges of three ranks, of which `spoil` changes those of rank 1.
std::string after(const std::function<void(std::vector<FlightEntry>& entries)>& spoil) {
  Three t;
  for (const auto* op : {"aten::mm", "aten::add", "aten::sum"}) {
    const Asking asks(op);
    gather(*t.world, t.comm.whole).wait();
  }
  auto flights = flights_of(*t.memory, 3);
  spoil(flights[1].entries);
  for (auto& e : flights[1].entries) e.number = &e - flights[1].entries.data() + 1, e.meeting = e.number;
  flights[1].begun = std::ssize(flights[1].entries);
  return split_text(flights);
}

// Catches: ranks that part and are not told apart, or are told of a later exchange than the first.
TEST(Flight, TheFirstExchangeInWhichRanksPart) {
  using Entries = std::vector<FlightEntry>;
  const std::vector<std::pair<std::function<void(Entries&)>, std::string>> cases = {
      {[](Entries&) {}, ""},
      {[](Entries& e) { e.erase(e.begin()); },
       "exchange 1 of ranks 0,1,2, all_gather: not for one op: aten::add on rank 1, aten::mm on ranks 0,2"},
      {[](Entries& e) { e.pop_back(); }, "exchange 3 of ranks 0,1,2, all_gather: rank 1 did not come"},
      {[](Entries& e) { e.clear(); }, "exchange 1 of ranks 0,1,2, all_gather: rank 1 did not come"},
      {[](Entries& e) { e[1].op = "broadcast"; },
       "exchange 2 of ranks 0,1,2, all_gather: not one exchange: broadcast on rank 1, all_gather on ranks "
       "0,2"},
      {[](Entries& e) { e[2].sends = "0:f32[2] 2:f64[2]"; },
       "exchange 3 of ranks 0,1,2, all_gather: rank 1 sends f64[2], and rank 2 expects of it f32[2]"},
      {[](Entries& e) { e[0].sends = ""; },
       "exchange 1 of ranks 0,1,2, all_gather: rank 1 sends nothing, and rank 0 expects of it f32[2]"},
      {[](Entries& e) { e[2].state = FlightState::kWaited; },
       "exchange 3 of ranks 0,1,2, all_gather: rank 1 waits for it"},
      {[](Entries& e) { e[1].state = FlightState::kBegun; },
       "exchange 2 of ranks 0,1,2, all_gather: rank 1 has begun it and does not wait for it"},
  };
  for (const auto& [spoil, says] : cases) {
    const auto text = after(spoil);
    EXPECT_EQ(text.substr(0, text.find('\n')), says);
  }
  const auto gone = after([](Entries& e) { e.pop_back(); });
  EXPECT_NE(
      gone.find("rank 1: did not come; its last is all_gather, exchange 2 of ranks 0,1,2, done, asked by "
                "aten::add\n    here"),
      std::string::npos)
      << gone;
}

// A rank that has stopped before an exchange has also begun one that it would have waited for later, and
// that the others have done with. Catches: the earlier one told, in which nobody waits for anybody.
TEST(Flight, WhatNobodyWaitsForIsNotWhereRanksPart) {
  const auto text = after([](std::vector<FlightEntry>& e) {
    e.pop_back();
    e.front().state = FlightState::kBegun;
  });
  EXPECT_EQ(text.substr(0, text.find('\n')), "exchange 3 of ranks 0,1,2, all_gather: rank 1 did not come");
}

// Ranks 3 and 4 have left an exchange in which rank 5 waits; its process hosts 0, 1 and 2 too, which wait in
// theirs for nobody. Catches: the exchange of those told, in which nothing parts.
TEST(Flight, WhatSomeHaveLeftIsWhereRanksPart) {
  Three t;
  gather(*t.world, t.comm.whole).wait();
  auto flights = flights_of(*t.memory, 3);
  for (int64_t rank = 3; rank < 6; ++rank) {
    auto flight = flights[as_size(rank - 3)];
    flight.rank = rank;
    flight.entries[0].ranks = "3,4,5";
    flights.push_back(std::move(flight));
  }
  for (auto& flight : flights) {
    flight.ranks = 6;
    if (flight.rank != 3 && flight.rank != 4) flight.entries[0].state = FlightState::kWaited;
  }
  const auto text = split_text(flights);
  EXPECT_EQ(text.substr(0, text.find('\n')), "exchange 1 of ranks 3,4,5, all_gather: rank 5 waits for it");
}

// Rank 2 has stopped before it waits for its exchange with rank 0, whose process hosts rank 1, too, and does
// not come to see that rank 3 has left theirs. Catches: the exchange of ranks 1 and 3, in which nothing
// parts.
TEST(Flight, WhatARankHasBegunAndDoesNotWaitForIsWhereRanksPart) {
  Three t;
  gather(*t.world, t.comm.whole).wait();
  auto flights = flights_of(*t.memory, 3);
  flights.push_back(flights.back());
  flights.back().rank = 3;
  const FlightState states[] = {FlightState::kWaited, FlightState::kWaited, FlightState::kBegun,
                                FlightState::kDone};
  for (auto& flight : flights) {
    flight.ranks = 4;
    flight.entries[0].ranks = flight.rank % 2 == 0 ? "2,0" : "1,3";
    flight.entries[0].sends = flight.entries[0].expects = "";
    flight.entries[0].state = states[flight.rank];
  }
  const auto text = split_text(flights);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "exchange 1 of ranks 2,0, all_gather: rank 2 has begun it and does not wait for it, rank 0 waits "
            "for it");
}

// Rank 1 has begun two exchanges, and waited for neither, where the others go on to a third. Catches: the
// last of what it has begun, told as if nothing before it were open.
TEST(Flight, WhatARankHasBegunBeforeIsToldToo) {
  Three t;
  for (int i = 0; i < 3; ++i) gather(*t.world, t.comm.whole).wait();
  auto flights = flights_of(*t.memory, 3);
  auto& stopped = flights[1];
  stopped.entries.pop_back();
  stopped.begun = 2;
  for (auto& entry : stopped.entries) entry.state = FlightState::kBegun;
  for (const size_t other : {0, 2}) flights[other].entries.back().state = FlightState::kWaited;
  const auto text = split_text(flights);
  EXPECT_EQ(text.substr(0, text.find('\n')), "exchange 3 of ranks 0,1,2, all_gather: rank 1 did not come");
  EXPECT_NE(text.find("its last is all_gather, exchange 2 of ranks 0,1,2, begun, asked by no op; nor has it "
                      "left all_gather, exchange 1 of ranks 0,1,2, asked by no op\n"),
            std::string::npos)
      << text;
}

// Catches: files of two runs, or one twice, that are held against each other; a rank that is blamed since
// nobody gave its file, or since its file begins later.
TEST(Flight, WhatFilesDoNotSayIsNoBlame) {
  Three t;
  for (int64_t k = 0; k < FlightRing::kLength + 8; ++k) gather(*t.world, t.comm.whole).wait();
  auto flights = flights_of(*t.memory, 3);
  flights[1].entries.erase(flights[1].entries.begin(), flights[1].entries.begin() + 5);
  EXPECT_EQ(split_text(flights), "");
  EXPECT_EQ(split_text({flights[0], flights[2]}), "");
  EXPECT_THROW(split_of({flights[0], flights[0]}), Error);
  flights[2].token = "v1:y#0";
  EXPECT_THROW(split_of(flights), Error);
  auto waits = flights[0];
  waits.entries.back().state = FlightState::kWaited;
  EXPECT_NE(split_text({waits}).find("rank 1: no file"), std::string::npos);
  EXPECT_NE(split_text({waits}).find("rank 0 waits for it; there is no file of ranks 1,2\n"),
            std::string::npos);
}

// Catches: of two exchanges that wait for each other's ranks the one of the rank that went astray.
TEST(Flight, WhoLeavesAnExchangeOutIsBlamedNotWhomItThenWaitsFor) {
  Three t;
  gather(*t.world, t.comm.whole).wait();
  auto flights = flights_of(*t.memory, 3);
  for (auto& flight : flights) flight.entries[0].state = FlightState::kWaited;
  flights[0].entries[0].ranks = "0,1";
  const auto text = split_text(flights);
  EXPECT_EQ(text.substr(0, text.find('\n')), "exchange 1 of ranks 0,1,2, all_gather: rank 0 did not come");
}

// Ranks 0 and 1 left an exchange with 2 and 3 out, each pair in another group, and wait in what the next op
// asks for. Catches: the largest group taken for the one that most ranks ought to have met in; where as many
// have gone astray as have not, the op that comes later.
TEST(Flight, WhatMostRanksAreAtComesFirstAndOfHalvesTheEarlierOp) {
  for (const int64_t ranks : {4, 6}) {
    std::vector<Flight> flights;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const bool astray = rank < 2;
      FlightEntry entry;
      entry.number = entry.meeting = 1, entry.state = FlightState::kWaited;
      entry.op = astray ? "reduce_scatter" : "all_gather";
      entry.entry = astray ? 7 : ranks == 4 ? 6 : 8;
      entry.ranks = astray ? (ranks == 4 ? "0,1,2,3" : "0,1,2,3,4,5") : concat(rank % 2, ",", rank);
      flights.push_back({rank, ranks, "", "", 1, {entry}});
    }
    const auto text = split_text(flights);
    EXPECT_EQ(text.substr(0, text.find('\n')), "exchange 1 of ranks 0,2, all_gather: rank 0 did not come");
  }
}

// Ranks 0 and 1 wait in one mesh, ranks 2 and 3 in another of the same ranks, both for one op. Catches: one
// of them blamed, where nothing says who has gone astray.
TEST(Flight, OfHalvesAtOneOpEitherMayHaveGoneAstray) {
  std::vector<Flight> flights;
  for (int64_t rank = 0; rank < 4; ++rank) {
    FlightEntry entry;
    entry.number = entry.meeting = 1, entry.entry = 6, entry.state = FlightState::kWaited;
    entry.op = "exchange";
    entry.ranks = rank < 2 ? "0,1,2,3" : "3,1,2,0";
    flights.push_back({rank, 4, "", "", 1, {entry}});
  }
  const auto text = split_text(flights);
  EXPECT_EQ(
      text.substr(0, text.find('\n')),
      "exchange 1 of ranks 0,1,2,3, exchange: ranks 2,3 did not come, or ranks 1,0 to exchange 1 of ranks "
      "3,1,2,0");
}

// Catches: of two groups that wait at the same time the one whose ranks are all there, and were interrupted
// by the other, of which one has left no file.
TEST(Flight, AGroupThatLacksARankComesBeforeOneThatDoesNot) {
  Three t;
  gather(*t.world, t.comm.whole).wait();
  auto flights = flights_of(*t.memory, 3);
  for (auto& flight : flights) {
    flight.ranks = 4;
    auto& entry = flight.entries[0];
    entry.state = FlightState::kWaited;
    entry.ranks = flight.rank == 2 ? "2,3" : "0,1";
    entry.sends = entry.expects = flight.rank == 0 || flight.rank == 2 ? "1:f32[2]" : "0:f32[2]";
  }
  const auto text = split_text(flights);
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "exchange 1 of ranks 2,3, all_gather: rank 2 waits for it; there is no file of rank 3");
}

// Catches: of two groups that meet at the same time the one that is fine, and was only interrupted.
TEST(Flight, AGroupThatDisagreesComesBeforeOneThatWaits) {
  Three t;
  gather(*t.world, t.comm.whole).wait();
  auto flights = flights_of(*t.memory, 3);
  for (auto& flight : flights) {
    auto& entry = flight.entries[0];
    entry.state = FlightState::kWaited;
    entry.ranks = flight.rank == 2 ? "0,2" : "0,1";
  }
  const auto text = split_text(flights);
  EXPECT_EQ(text.substr(0, text.find('\n')), "exchange 1 of ranks 0,2, all_gather: rank 0 did not come");
}

// A folder for temporary files that is this test's own.
class Flights : public ::testing::Test {
 protected:
  Flights() {
    std::filesystem::create_directory(folder_);
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  ~Flights() override {
    unsetenv("TMPDIR");
    std::filesystem::remove_all(folder_);
  }

  // What is kept, by rank.
  std::vector<Flight> kept() const {
    std::vector<std::filesystem::path> files(std::filesystem::directory_iterator(folder_), {});
    std::sort(files.begin(), files.end());
    std::vector<Flight> flights;
    for (const auto& file : files) {
      std::ifstream in(file);
      flights.push_back(parse_flight({std::istreambuf_iterator<char>(in), {}}, file.string()));
    }
    return flights;
  }
  std::string line(const std::string& name) const {
    return concat("\nlockstep show flight ", folder_.string(), "/lockstep-", getpid(), "-", name,
                  "rank-*.flight");
  }

  const std::filesystem::path folder_ = concat(::testing::TempDir(), "flights-", getpid());
};

constexpr Patience kSoon = std::chrono::milliseconds(300);

// Three ranks, of which the last one leaves out the second of two exchanges.
void leave_out(const WorldPtr& world) {
  const Comm comm(DeviceMesh({3}), world);
  gather(*world, comm.whole).wait();
  if (world->hosted()[0] != 2) gather(*world, comm.whole).wait();
}

template <class E, class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const E& e) {
    return typeid(e) == typeid(E) ? e.what() : "another type";
  }
  return "nothing";
}

// Catches: threads of which nobody knows what they did; flights of some ranks alone, or of none that differ.
TEST_F(Flights, ThreadsThatPartKeepTheFlightsOfAll) {
  const auto run = [](const auto& body) { run_on_recorded_threads(3, kSoon, "v1:x#c0ffee", body); };
  const auto text = error_of<RankLost>([&] { run(leave_out); });
  EXPECT_NE(text.find("\nranks part in exchange 2 of ranks 0,1,2, all_gather: rank 2 did not come"),
            std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with(line("c0ffee-"))) << text;
  ASSERT_EQ(kept().size(), 3u);
  EXPECT_EQ(kept()[2].begun, 1);
  EXPECT_EQ(describe(*split_of(kept())).find("exchange 2 of ranks 0,1,2"), 0u);
  drop_flights({}, text);
  drop_flights(own_flights(), "");
  EXPECT_EQ(own_flights().size(), 3u);
  drop_flights({}, "/lockstep-1-c0ffee-rank-");
  EXPECT_EQ(kept().size(), 0u);
  EXPECT_EQ(error_of<Error>([&] { run([](const WorldPtr&) { throw Error("all alike"); }); }), "all alike");
  const auto within_an_exchange = [](const WorldPtr& world) {
    const Comm comm(DeviceMesh({3}), world);
    const auto begun = gather(*world, comm.whole);
    throw Error("all alike");
  };
  EXPECT_EQ(error_of<Error>([&] { run(within_an_exchange); }), "all alike");
  EXPECT_EQ(kept().size(), 0u);
}

// Catches: a rank of a World whose others are elsewhere that keeps nothing, tells nothing, or changes what is
// thrown; flights that are said to be where nothing could be written.
TEST_F(Flights, EachProcessKeepsThoseOfItsRanks) {
  const auto run = [](const std::function<void(const WorldPtr&)>& body) {
    run_on_threads(3, kSoon, [&](const WorldPtr& world) { body(with_flights(world, "here")); });
  };
  EXPECT_TRUE(error_of<RankLost>([&] { run(leave_out); }).ends_with(line("")));
  ASSERT_EQ(kept().size(), 2u);
  EXPECT_EQ(kept()[1].rank, 1);
  EXPECT_EQ(kept()[1].where, "here");
  EXPECT_NE(describe(*split_of(kept())).find("rank 2: no file"), std::string::npos);
  const auto other_size = [](const WorldPtr& world) {
    gather(*world, Comm(DeviceMesh({3}), world).whole, world->hosted()[0] == 0 ? 2 : 3).wait();
  };
  EXPECT_NE(error_of<Error>([&] { run(other_size); }).find(line("")), std::string::npos);
  for (const std::string nowhere : {"/proc", "/nonexistent"}) {
    setenv("TMPDIR", nowhere.c_str(), 1);
    EXPECT_NE(error_of<RankLost>([&] { run(leave_out); }).find("is not kept: " + nowhere + "/lockstep-"),
              std::string::npos);
    drop_flights({}, "");
  }
}

}  // namespace
}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
// Ranks in processes of their own: conform as LocalWorld does, and name the rank that is gone.
#include "engine/world/c10d_world.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "engine/values/as_size.h"
#include "engine/world/collectives.h"
#include "engine/world/comm.h"
#include "engine/world/gloo_group.h"
#include "engine/world/packing.h"
#include "engine/world/testing_conformance.h"

namespace lockstep {
namespace {

using Body = std::function<std::string(Processes& processes, int64_t process)>;

[[noreturn]] void run_child(const std::function<std::string()>& body, int out) {
  std::string said;
  try {
    said = body();
  } catch (const std::exception& e) {
    said = e.what();
  }
  if (write(out, said.data(), said.size()) != std::ssize(said)) _exit(1);
  _exit(0);
}

std::string all_of(int in) {
  std::string text(1 << 16, '\0');
  const auto n = read(in, text.data(), text.size());
  close(in);
  return text.substr(0, n > 0 ? static_cast<size_t>(n) : 0);
}

// What each child says when it ends; one that stops is killed after all others have ended.
std::vector<std::string> in_children(int64_t n, const std::function<std::string(int64_t child)>& body) {
  std::vector<int> pipes;
  std::vector<pid_t> children, stopped;
  for (int64_t p = 0; p < n; ++p) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pipes.push_back(ends[0]);
    children.push_back(fork());
    if (children.back() == 0) run_child([&] { return body(p); }, ends[1]);
    close(ends[1]);
  }
  for (auto left = n; left > std::ssize(stopped);) {
    int status = 0;
    const pid_t child = waitpid(-1, &status, WUNTRACED);
    if (WIFSTOPPED(status))
      stopped.push_back(child);
    else
      std::erase(stopped, child), --left;
  }
  for (const pid_t child : stopped) kill(child, SIGKILL), waitpid(child, nullptr, 0);
  std::vector<std::string> said;
  for (const int in : pipes) said.push_back(all_of(in));
  return said;
}

std::atomic<int64_t> until_flip =
    0;  // so many messages from now a bit flips of one that comes late; 0: of none

void on_wire(std::string& message) {
  if (until_flip == 0 || --until_flip > 0) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  message[message.size() / 2] ^= 16;
}

std::vector<std::string> in_processes(int64_t n, const Body& body,
                                      Patience patience = std::chrono::seconds(60)) {
  const int file = memfd_create("meeting", 0);
  auto said = in_children(n, [&](int64_t child) {
    Processes processes({child,
                         n,
                         {.file = concat("/proc/self/fd/", file)},
                         concat("process ", child),
                         patience,
                         std::chrono::minutes(1),
                         on_wire});
    return body(processes, child);
  });
  close(file);
  return said;
}

void gather(World& world, const Groups& groups) {
  const auto none = [](size_t, const at::Tensor&) {};
  const PerRank<at::Tensor> sent(groups.size(), at::zeros({2}));
  all_gather(world, groups, sent, none).wait();
}

// Catches: blocks that overlap, leave a rank out, or differ by more than one.
TEST(C10dWorld, EachProcessHostsABlock) {
  for (int64_t n = 1; n <= 9; ++n)
    for (int64_t processes = 1; processes <= 4; ++processes) {
      std::vector<int64_t> all;
      for (int64_t p = 0; p < processes; ++p) {
        const auto ranks = hosted_ranks(n, processes, p);
        EXPECT_LE(std::ssize(ranks), (n + processes - 1) / processes);
        EXPECT_GE(std::ssize(ranks), n / processes);
        all.insert(all.end(), ranks.begin(), ranks.end());
      }
      EXPECT_EQ(all, up_to(n)) << n << " over " << processes;
    }
}

// Catches: bits that change on the way, parcels of one rank that reach another of its process, messages of
// one World that are read in the next.
TEST(C10dWorld, Conforms) {
  const std::vector<std::vector<int64_t>> shapes = {{2}, {4}, {2, 3}, {2, 2, 2}, {5}};
  for (const int64_t n : {2, 3, 4, 8}) {
    const auto said = in_processes(n, [&](Processes& processes, int64_t process) {
      std::string wrong = self_test(processes, n);
      for (int64_t number = 1; const auto& shape : shapes) {
        const DeviceMesh mesh(shape);
        if (!hosted_ranks(mesh.size(), n, process).empty())
          processes.run(number, mesh.size(),
                        [&](const WorldPtr& world) { wrong += world_conformance(world, mesh); });
        ++number;
      }
      return wrong;
    });
    EXPECT_EQ(said, std::vector<std::string>(static_cast<size_t>(n))) << n;
  }
}

// Three processes of one rank each; what each is told after `wrong` is done by the last in the second of two
// gathers.
std::vector<std::string> told(const std::function<void()>& wrong, Patience patience) {
  // A process that is killed takes along what it has not sent yet: it waits until all have its first.
  void* shared =
      mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& gathered = *new (shared) std::atomic<int>(0);
  const auto body = [&](Processes& processes, int64_t process) {
    processes.run(0, 3, [&](const WorldPtr& world) {
      const Comm comm(DeviceMesh({3}), world);
      gather(*world, comm.along[0]);
      ++gathered;
      const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
      while (process == 2 && gathered < 3 && std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
      if (process == 2) wrong();
      gather(*world, comm.along[0]);
    });
    return std::string("nothing");
  };
  auto said = in_processes(3, body, patience);
  munmap(shared, sizeof(std::atomic<int>));
  return said;
}

void expect_named(const std::vector<std::string>& said, const std::string& why) {
  for (const int64_t rank : {0, 1}) {
    const auto& text = said[as_size(rank)];
    EXPECT_NE(text.find(concat("[all_gather] exchange 2 of ranks 0,1,2: rank ", rank, " (process ", rank,
                               ") waits for rank 2 (process 2), which ", why)),
              text.npos)
        << text;
    EXPECT_NE(text.find("the last that it came to is all_gather, exchange 1 of ranks 0,1,2"), text.npos)
        << text;
  }
}

// Catches: survivors that wait for ever for a process that is gone, or do not say which.
TEST(C10dWorld, AProcessThatDiesIsNamed) {
  expect_named(told([] { raise(SIGKILL); }, std::chrono::seconds(30)), "has ended: its connection is lost");
}

// Catches: a wait without a bound.
TEST(C10dWorld, AProcessThatStallsIsNamed) {
  expect_named(told([] { raise(SIGSTOP); }, std::chrono::seconds(2)), "did not come within 2000 ms");
}

// Catches: an error on one rank for which the others wait until they lose patience.
TEST(C10dWorld, ARankThatFailsSaysWhy) {
  const auto said = told([] { throw std::runtime_error("out of luck"); }, std::chrono::minutes(9));
  expect_named(said, "has ended: out of luck");
  EXPECT_EQ(said[2], "out of luck");
}

// Process 0 flips a bit of what it sends process 2 in the first World's second exchange, while process 1 is
// in the second World already; or in the second World's only exchange. Catches: bits that change between two
// processes and are taken for those that were sent; another World that is told of it, or that cannot hear the
// process any more.
TEST(C10dWorld, ABitThatFlipsOnTheWireIsNamed) {
  for (const int64_t spoilt : {0, 1}) {
    const auto said = in_processes(3, [&](Processes& processes, int64_t process) {
      std::string told;
      bool connected = false;
      for (const int64_t number : {0, 1, 2}) try {
          processes.run(number, 3, [&](const WorldPtr& world) {
            const Comm comm(DeviceMesh({3}), world);
            if (number != 1 || spoilt != 1) gather(*world, comm.along[0]);
            if (number == 2) connected = processes.connected();  // while none of them can have ended
            if (process == 0 && number == spoilt) until_flip = 2;
            gather(*world, comm.along[0]);
          });
        } catch (const RankLost& e) {
          told += concat(number, " ", e.what());
        }
      return concat(connected ? "" : "a connection is lost; ", told);
    });
    const std::string expected = concat(
        spoilt, " [all_gather] exchange ", spoilt == 0 ? 2 : 1,
        " of ranks 0,1,2: rank 2 (process 2) waits for rank 0 (process 0), which has ended: a message of it "
        "arrived with other bits than it left with");
    EXPECT_EQ(said[0], "");
    EXPECT_EQ(said[1], "");
    EXPECT_EQ(said[2].substr(0, expected.size()), expected) << said[2];
    EXPECT_EQ(said[2].find("1 [all_gather]") == said[2].npos, spoilt == 0) << said[2];
    EXPECT_EQ(said[2].find("2 [all_gather]"), said[2].npos) << said[2];
  }
}

// Catches: a change of one bit that a checksum does not show.
TEST(C10dWorld, TheChecksumChangesWithEachBit) {
  for (const size_t size : {0, 1, 7, 8, 9, 40}) {
    std::string text(size, 'x');
    const auto sum = checksum(text);
    EXPECT_NE(checksum(text + '\0'), sum);
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
      EXPECT_NE(checksum(text), sum) << bit << " of " << size;
      text[bit / 8] = 'x';
    }
  }
}

// Rank 0 waits for rank 1 alone, which waits for rank 2. Catches: a rank that is blamed for whom it waits
// for itself.
TEST(C10dWorld, WhoKeepsAllWaitingIsNamed) {
  const auto said = in_processes(
      3,
      [&](Processes& processes, int64_t process) {
        processes.run(0, 3, [&](const WorldPtr& world) {
          if (process == 2) raise(SIGSTOP);
          if (process == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
          const std::vector<Group> groups{
              {process == 0 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1, 2},
               process == 0 ? 0 : process - 1}};
          gather(*world, groups);
        });
        return std::string();
      },
      std::chrono::seconds(3));
  EXPECT_NE(
      said[0].find("rank 0 (process 0) waits for rank 1 (process 1), which waits for rank 2 (process 2), "
                   "which did not come within 3000 ms"),
      said[0].npos)
      << said[0];
}

// A port that is free, of none the system gives to who connects: the connections of another test may get such
// a one before somebody listens there.
std::string free_port() {
  int first = 0, last = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last;
  std::random_device random;
  while (true) {
    const int port = std::uniform_int_distribution(10000, 65000)(random);
    if (first <= port && port <= last) continue;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool is_free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(fd);
    if (is_free) return std::to_string(port);
  }
}

// As torchrun and mpirun set the environment of what they start. Catches: a process that takes another's
// place, or a World that ends before all have what it sent.
TEST(C10dWorld, JoinsTheWorldsOfTheEnvironment) {
  const std::vector<std::pair<std::string, std::string>> launchers = {
      {"RANK", "WORLD_SIZE"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_SIZE"},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
  for (const auto& [rank, size] : launchers)
    for (const int64_t each : {1, 2}) {
      const auto port = free_port();
      const auto said = in_children(3, [&](int64_t child) {
        setenv(rank.c_str(), std::to_string(child).c_str(), 1);
        setenv(size.c_str(), "3", 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", port.c_str(), 1);
        const auto world = each == 1 ? World::from_environment() : World::from_environment(each);
        if (world->hosted() != hosted_ranks(3 * each, 3, child)) return std::string("hosts other ranks");
        auto wrong = world_conformance(world, DeviceMesh({3, each}));
        // Beside it another, and one when that is gone.
        for (int more = 0; more < 2 && wrong.empty() && rank == "RANK"; ++more)
          wrong = world_conformance(World::from_environment(each), DeviceMesh({3, each}));
        return wrong;
      });
      EXPECT_EQ(said, std::vector<std::string>(3)) << rank;
    }
}

// Catches: a batch script, which Slurm tells of all the tasks of its job, that waits for them.
TEST(C10dWorld, ABatchScriptIsNotLaunched) {
  const auto said = in_children(1, [](int64_t) {
    setenv("SLURM_PROCID", "0", 1), setenv("SLURM_NTASKS", "4", 1);
    return std::string(launched_processes() == 0 && !launched_seat() ? "" : "launched");
  });
  EXPECT_EQ(said[0], "");
}

// Catches: words that overtake each other or a World's, and one who waits for words of a process that is
// gone.
TEST(C10dWorld, WordsComeInTheirOrder) {
  const std::string large(100'000, 'x');
  const auto said = in_processes(2, [&](Processes& processes, int64_t process) {
    const auto patience = std::chrono::seconds(20);
    if (process == 1) {
      for (const auto& words : {std::string("one"), large, std::string()}) processes.say(0, words);
      return processes.hear(0, patience) == "go" ? std::string() : std::string("other words");
    }
    for (const auto& words : {std::string("one"), large, std::string()})
      if (processes.hear(1, patience) != words) return std::string("other words");
    processes.say(1, "go");
    try {
      processes.hear(1, patience);
    } catch (const RankLost& e) {
      return std::string(e.what()).find("process 1 (") == 7 ? std::string() : std::string(e.what());
    }
    return std::string("heard what nobody said");
  });
  EXPECT_EQ(said, std::vector<std::string>(2));
}

// Catches: a process that keeps all that it has ever sent.
TEST(C10dWorld, WhatHasLeftIsLetGo) {
  const int file = memfd_create("meeting", 0);
  const auto said = in_children(2, [&](int64_t child) {
    constexpr int kMessages = 50;
    GlooGroup group({.file = concat("/proc/self/fd/", file)}, child, 2, std::chrono::minutes(1));
    for (int i = 0; i < kMessages; ++i) {
      group.send(1 - child, std::string(100'000, 'x'));
      group.receive(1 - child);
    }
    for (int left = 200; left > 0 && group.unsent() > 0; --left)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    group.say("done", "");  // neither closes before the other has all
    return std::to_string(group.unsent());
  });
  EXPECT_EQ(said, std::vector<std::string>(2, "0"));
}

const std::string kHuge(64 << 20, 'x');  // which no socket takes at once

// Catches: one who waits for the rest of a message until it loses patience, as gloo does not tell it.
TEST(C10dWorld, WhoDiesWithinAMessageIsGone) {
  const auto said = in_processes(2, [&](Processes& processes, int64_t process) {
    if (process == 1) {
      processes.say(0, kHuge);
      raise(SIGKILL);
    }
    try {
      processes.hear(1, std::chrono::minutes(9));
    } catch (const RankLost& e) {
      return std::string(e.what());
    }
    return std::string("heard what was not said to its end");
  });
  EXPECT_NE(said[0].find("process 1 (process 1) is gone: "), std::string::npos) << said[0];
}

void await_stopped(const std::string& pid) {
  std::string state;
  while (state.find(") T ") == state.npos) {
    std::ifstream stat("/proc/" + pid + "/stat");
    std::getline(stat, state);
  }
}

// Catches: one who waits until what it sent has left, of which gloo does not tell it that nobody takes it;
// whether it hears that the other is gone before it waits or while it does.
TEST(C10dWorld, NobodyWaitsToBeHeardByWhoIsGone) {
  const auto patience = std::chrono::minutes(9);
  const auto began = std::chrono::steady_clock::now();
  for (const int64_t pause : {0, 2})
    in_processes(
        2,
        [&](Processes& processes, int64_t process) {
          if (process == 1) {
            processes.say(0, std::to_string(getpid()));
            for (;;) ::pause();  // not stopped by itself: what it said may not have left
          }
          const auto other = processes.hear(1, patience);
          kill(std::stoi(other), SIGSTOP);
          await_stopped(other);
          processes.say(1, kHuge);
          kill(std::stoi(other), SIGKILL);
          std::this_thread::sleep_for(std::chrono::seconds(pause));
          processes.run(0, 2, [](const WorldPtr&) {});
          return std::string();
        },
        patience);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::minutes(1));
}

// Catches: a program that is started by hand and waits, or fails without a remedy.
TEST(C10dWorld, TellsWhatTheEnvironmentLacks) {
  const auto told = [](const char* rank) {
    return in_children(1, [&](int64_t) {
      if (rank != nullptr) setenv("RANK", rank, 1), setenv("WORLD_SIZE", "2", 1);
      World::from_environment();
      return std::string();
    })[0];
  };
  EXPECT_NE(told(nullptr).find("RANK and WORLD_SIZE are not set"), std::string::npos) << told(nullptr);
  EXPECT_NE(told("2").find("RANK=2 of WORLD_SIZE=2"), std::string::npos) << told("2");
  EXPECT_NE(told("x").find("RANK='x' is no number"), std::string::npos) << told("x");
  EXPECT_NE(told("0").find("MASTER_ADDR and MASTER_PORT do not say where to meet"), std::string::npos)
      << told("0");
}

// Catches: a size below zero taken for one.
TEST(C10dWorld, AMessageOfNoSizeIsRefused) {
  Packer packer;
  packer.number(-8);
  const auto bytes = std::move(packer).take();
  const auto message = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::memcpy(message.mutable_data_ptr(), bytes.data(), bytes.size());
  EXPECT_THROW(Unpacker(message).text(), Broken);
}

}  // namespace
}  // namespace lockstep

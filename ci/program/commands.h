// SPDX-License-Identifier: Apache-2.0
// The commands of the program. Each adds its options to the parser and sets what to do when it is chosen.
#pragma once
#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "engine/lane/numerics.h"

namespace lockstep::program {

// What the chosen command needs from main, and what it does; the result is the exit code.
struct Chosen {
  std::string command_line;  // as typed
  std::function<int()> action{};
  std::optional<Lane> lane{};  // that it runs in
  bool on_cuda = false;        // of its Cases: on a CUDA device
  bool json = false;
};

// A command and its flags, which live as long as the parser; where it is chosen, `run` is what it does. Flags
// may have `json`, lane(): in which lane they run, after what must be checked before it is entered, and
// on_cuda().
template <class Flags>
std::pair<CLI::App&, Flags&> add_command(CLI::App& app, Chosen& chosen, const char* name, const char* help,
                                         int (*run)(const Flags&)) {
  auto flags = std::make_shared<Flags>();
  auto* command = app.add_subcommand(name, help);
  command->callback([&chosen, command, flags, run] {
    if (!command->get_subcommands().empty()) return;
    if constexpr (requires { flags->json; }) chosen.json = flags->json;
    if constexpr (requires { flags->lane(); }) chosen.lane = flags->lane();
    if constexpr (requires { flags->on_cuda(); }) chosen.on_cuda = flags->on_cuda();
    chosen.action = [flags, run] { return run(*flags); };
  });
  return {*command, *flags};
}

void add_run(CLI::App& app, Chosen& chosen);
void add_replay(CLI::App& app, Chosen& chosen);
// `lockstep worker`, which no help lists.
void add_worker(CLI::App& app, Chosen& chosen);
// `lockstep engine serve`.
void add_engine(CLI::App& app, Chosen& chosen);
void add_list(CLI::App& app, Chosen& chosen);
void add_show(CLI::App& app, Chosen& chosen);
void add_report(CLI::App& app, Chosen& chosen);
void add_serve(CLI::App& app, Chosen& chosen);
void add_merge(CLI::App& app, Chosen& chosen);
void add_export(CLI::App& app, Chosen& chosen);
void add_publish(CLI::App& app, Chosen& chosen);
void add_gate(CLI::App& app, Chosen& chosen);
void add_bless(CLI::App& app, Chosen& chosen);
void add_prune(CLI::App& app, Chosen& chosen);
void add_bisect(CLI::App& app, Chosen& chosen);
void add_bench(CLI::App& app, Chosen& chosen);
void add_init(CLI::App& app, Chosen& chosen);
void add_train(CLI::App& app, Chosen& chosen);
// `lockstep curves import`: a command below curves.
void add_import(CLI::App& curves_app, Chosen& chosen);

// Ends the program with this code, where no other error has it.
struct Ended : std::runtime_error {
  Ended(int c, const std::string& what) : std::runtime_error(what), code(c) {}
  int code;
};

// "exact" or "fast"; of nothing said the latter on the device "cuda", else the former. Throws NotBuilt for
// "invariant", Error for the rest.
Lane parse_lane(const std::string& text, const std::string& device = "cpu");
// Throws Error where Cases cannot be on this device in this lane and World.
void check_device(const std::string& command, const std::string& device, Lane lane, const std::string& world,
                  const std::string& engine, const std::string& fault);
// --world and --ranks.
void add_world(CLI::App& app, std::string& world, int64_t& ranks);
// --hang of what runs in one World to its end.
void add_hang(CLI::App& app, int64_t& seconds);
// Throws Error unless there is such a World, of so many processes.
void check_world(const std::string& command, const std::string& world, int64_t ranks);
// In a process of a launcher that only hosts ranks: does so to the end. @param seconds --hang @returns the
// exit code
std::optional<int> take_part(const std::string& world, int64_t ranks, double seconds);
// Throws Error unless these suites of this engine can be judged in this World.
void check_world(const std::string& command, const std::string& world, int64_t ranks,
                 const std::string& engine, const std::string& fault, const std::vector<std::string>& suites);
// --reduce of both: whether the library reduces across ranks, and what it does not go with.
bool parse_reduce(const std::string& command, const std::string& text);
void check_library(const std::string& command, const std::string& world, const std::string& engine,
                   const std::string& device, const std::vector<std::string>& suites);
inline constexpr const char* kNotAvailable = " is not available in this version";

}  // namespace lockstep::program

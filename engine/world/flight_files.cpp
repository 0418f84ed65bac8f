// SPDX-License-Identifier: Apache-2.0
#include "engine/world/flight_files.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/thread_world.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char *kRank = "rank-", *kEnd = ".flight";

std::string own_prefix() {
  return concat("lockstep-", getpid(), "-");
}

// As the environment names it, whether it is there or not.
fs::path folder() {
  std::error_code wrong;
  const auto found = fs::temp_directory_path(wrong);
  const char* named = std::getenv("TMPDIR");
  return wrong && named != nullptr ? fs::path(named) : found;
}

// "/tmp/lockstep-4711-c0ffee-rank-", what the names of a case's flights begin with.
std::string base_of(const std::string& token) {
  const auto name = token.empty() ? "" : concat(token.substr(token.rfind('#') + 1), "-");
  return (folder() / concat(own_prefix(), name, kRank)).string();
}

std::vector<Flight> flights_of(const FlightMemory& memory, const std::vector<int64_t>& ranks, int64_t n,
                               const std::string& where, const std::string& token) {
  std::vector<Flight> flights;
  for (const int64_t rank : ranks) flights.push_back(flight_of(memory.of(rank), rank, n, where, token));
  return flights;
}

}  // namespace

std::string keep_flights(const std::vector<Flight>& flights) {
  const auto base = base_of(flights.front().token);
  for (const auto& flight : flights) {
    const auto path = concat(base, flight.rank, kEnd);
    std::ofstream out(path, std::ios::binary);
    out << to_text(flight);
    if (!out.flush())
      return concat("\nwhat ranks did last is not kept: ", path,
                    " cannot be written; set TMPDIR to a folder with room");
  }
  return concat("\nlockstep show flight ", base, "*", kEnd);
}

std::vector<std::string> own_flights() {
  std::vector<std::string> files;
  std::error_code ignored;  // a folder that is not there has none
  for (fs::directory_iterator at(folder(), ignored), end; at != end; at.increment(ignored)) {
    const auto name = at->path().filename().string();
    if (name.starts_with(own_prefix()) && name.ends_with(kEnd)) files.push_back(at->path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void drop_flights(const std::vector<std::string>& before, const std::string& text) {
  std::error_code ignored;
  for (const auto& path : own_flights())
    if (!std::binary_search(before.begin(), before.end(), path) &&
        text.find(path.substr(0, path.rfind(kRank))) == std::string::npos)
      fs::remove(path, ignored);
}

std::string parted(const std::vector<Flight>& flights) {
  const auto split = split_of(flights);
  return split ? concat("\nranks part in ", describe(*split), keep_flights(flights)) : "";
}

WorldPtr with_flights(WorldPtr world, const std::string& where, const std::string& token) {
  const auto memory = std::make_shared<FlightMemory>(world->size());
  const auto told = [memory, ranks = world->hosted(), n = world->size(), where, token] {
    return keep_flights(flights_of(*memory, ranks, n, where, token));
  };
  return recorded(std::move(world), memory, told);
}

void run_on_recorded_threads(int64_t n, Patience patience, const std::string& token,
                             const std::function<void(const WorldPtr& world)>& body) {
  const auto memory = std::make_shared<FlightMemory>(n);
  saying([&] { return parted(flights_of(*memory, up_to(n), n, "", token)); },
         [&] { run_on_threads(n, patience, [&](const WorldPtr& world) { body(recorded(world, memory)); }); });
}

}  // namespace lockstep

// SPDX-License-Identifier: Apache-2.0
#include "engine/world/flight_log.h"

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep {
namespace {

constexpr std::string_view kFirst = "lockstep-flight";
constexpr int64_t kVersion = 1;
constexpr const char* kStates[] = {"begun", "waited", "done"};

std::string shown(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string one_line(std::string text) {
  for (auto& ch : text)
    if (static_cast<unsigned char>(ch) < ' ') ch = ' ';
  return text;
}

// The lines of a file, each as its fields.
class Lines {
 public:
  Lines(const std::string& text, const std::string& file) : file_(file), lines_(split(text, '\n')) {
    if (!lines_.empty() && lines_.back().empty()) lines_.pop_back();
  }

  template <class... Text>
  [[noreturn]] void fail(const Text&... text) const {
    throw Error(concat("[show flight] ", file_, ", line ", at_, ": ", text...));
  }

  // The next line, which has so many fields and begins with this word; "": with any.
  void next(std::string_view word, size_t fields) {
    if (at_ == lines_.size()) {
      ++at_;
      fail("the file ends early; copy it whole");
    }
    fields_ = split(lines_[at_++], '\t');
    if (fields_.size() != fields || (!word.empty() && fields_[0] != word))
      fail("expected ", word.empty() ? "an exchange" : word, " in ", fields, " fields");
  }
  bool done() const { return at_ == lines_.size(); }

  std::string text(size_t i) const { return fields_[i] == "-" ? "" : std::string(fields_[i]); }
  int64_t number(size_t i, int64_t least = 0) const {
    const auto value = parse_integer(fields_[i]);
    if (!value || *value < least) fail("'", fields_[i], "' is no number of at least ", least);
    return *value;
  }
  FlightState state(size_t i) const {
    const auto* found = std::find(std::begin(kStates), std::end(kStates), fields_[i]);
    if (found == std::end(kStates)) fail("'", fields_[i], "' is none of begun, waited and done");
    return static_cast<FlightState>(found - kStates);
  }

 private:
  const std::string& file_;
  std::vector<std::string_view> lines_;
  std::vector<std::string_view> fields_;
  size_t at_ = 0;
};

FlightEntry read_entry(Lines& lines) {
  lines.next("", 11);
  FlightEntry e;
  e.number = lines.number(0, 1), e.meeting = lines.number(1, 1), e.state = lines.state(2);
  e.sent = lines.number(3), e.received = lines.number(4), e.entry = lines.number(5, -1);
  e.asker = lines.text(6), e.op = lines.text(7), e.ranks = lines.text(8);
  e.sends = lines.text(9), e.expects = lines.text(10);
  if (!parse_integers(e.ranks, ',') && !e.ranks.ends_with('~')) lines.fail("'", e.ranks, "' are no ranks");
  return e;
}

}  // namespace

const char* name(FlightState state) {
  return kStates[static_cast<size_t>(state)];
}

Flight flight_of(const FlightRing& ring, int64_t rank, int64_t ranks, std::string where, std::string token) {
  Flight flight{rank, ranks, std::move(where), std::move(token), ring.count, {}};
  for (int64_t n = std::max(int64_t{0}, ring.count - FlightRing::kLength); n < ring.count; ++n) {
    const auto& r = ring.records[n % FlightRing::kLength];
    flight.entries.push_back({r.number, r.meeting, r.state, r.sent, r.received, r.entry, r.asker, r.op,
                              r.ranks, r.sends, r.expects});
  }
  return flight;
}

std::string to_text(const Flight& flight) {
  auto text = concat(kFirst, "\t", kVersion, "\nrank\t", flight.rank, "\t", flight.ranks, "\nwhere\t",
                     shown(one_line(flight.where)), "\ncase\t", shown(flight.token), "\nbegun\t",
                     flight.begun, "\t", flight.entries.size(), "\n");
  for (const auto& e : flight.entries)
    text += concat(e.number, "\t", e.meeting, "\t", name(e.state), "\t", e.sent, "\t", e.received, "\t",
                   e.entry, "\t", shown(e.asker), "\t", shown(e.op), "\t", shown(e.ranks), "\t",
                   shown(e.sends), "\t", shown(e.expects), "\n");
  return text;
}

Flight parse_flight(const std::string& text, const std::string& file) {
  Lines lines(text, file);
  LOCKSTEP_CHECK(text.starts_with(concat(kFirst, "\t")), "[show flight] ", file,
                 " is no flight: it does not begin with '", kFirst, "'");
  lines.next(kFirst, 2);
  if (const auto version = lines.number(1, 1); version != kVersion)
    lines.fail("the file is of version ", version, ", and this program reads version ", kVersion);
  Flight flight;
  lines.next("rank", 3);
  flight.rank = lines.number(1), flight.ranks = lines.number(2, 1);
  if (flight.rank >= flight.ranks) lines.fail("there is no rank ", flight.rank, " of ", flight.ranks);
  lines.next("where", 2);
  flight.where = lines.text(1);
  lines.next("case", 2);
  flight.token = lines.text(1);
  lines.next("begun", 3);
  flight.begun = lines.number(1);
  const auto kept = lines.number(2);
  if (kept > flight.begun) lines.fail("more exchanges are kept than were begun");
  for (int64_t k = 0; k < kept; ++k) {
    flight.entries.push_back(read_entry(lines));
    if (flight.entries.back().number != flight.begun - kept + k + 1)
      lines.fail("an exchange is missing before it");
  }
  if (!lines.done()) lines.fail("there is more than the file says");
  return flight;
}

}  // namespace lockstep

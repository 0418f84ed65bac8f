// SPDX-License-Identifier: Apache-2.0
#include "oracle/program/token_parser.h"

#include <charconv>
#include <optional>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "engine/values/text.h"
#include "oracle/program/number_text.h"
#include "oracle/program/token_words.h"

namespace lockstep::oracle {
namespace {

// Characters of the token before the text that is parsed, "v1:", and one, since people count from 1.
constexpr size_t kBefore = 4;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Case parse() {
    Case c;
    c.suite = word(kSuiteMarks, "the suite's name");
    header(c);
    while (at_ < text_.size()) {
      take(';', "between statements");
      statement_ = at_;
      if (peek() == 'x') {
        if (!c.program.calls.empty()) fail("an input after the first call");
        input(c);
      } else {
        call(c);
      }
    }
    return c;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    size_t end = statement_;  // a semicolon in a string ends none
    for (bool quoted = false; end < text_.size() && (quoted || text_[end] != ';'); ++end)
      quoted ^= text_[end] == '"';
    throw Error(concat(
        "[token] ", what, " at character ", at_ + kBefore, ", in the statement '",
        text_.substr(statement_, end - statement_),
        "'. Its checksum holds, so it was written so: correct this statement; oracle/README.md has the "
        "form."));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool skip(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool skip(std::string_view prefix) {
    if (!is_next(prefix)) return false;
    at_ += prefix.size();
    return true;
  }
  void take(char c, std::string_view where) {
    if (!skip(c)) fail(concat("expected '", c, "' ", where));
  }
  bool is_next(std::string_view prefix) const { return text_.substr(at_).starts_with(prefix); }
  // The name of a statement of the header, after the ';' before it: errors from here on are in this one.
  void begin(std::string_view prefix) {
    if (peek() == ';') statement_ = at_ + 1;
    if (!skip(prefix)) fail(concat("expected '", prefix, "'"));
  }

  std::string_view until(std::string_view stops) {
    const auto end = std::min(text_.find_first_of(stops, at_), text_.size());
    const auto part = text_.substr(at_, end - at_);
    at_ = end;
    return part;
  }

  std::string word(std::string_view marks, std::string_view what) {
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_.substr(at_, 1), marks)) ++at_;
    if (at_ == begin) fail(concat("expected ", what));
    return std::string(text_.substr(begin, at_ - begin));
  }

  template <class T>
  T number(int base = 10) {
    T value{};
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value, base);
    if (error != std::errc()) fail("expected an integer that fits 64 bits");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  // Runs a parser of another type on a part of the text; its errors gain the place.
  template <class F>
  auto part(std::string_view text, F&& f) {
    try {
      return f(text);
    } catch (const Error& e) {
      fail(e.what());
    }
  }

  void header(Case& c) {
    begin(";mesh=");
    c.mesh = part(until(";"), parse_mesh);
    if (is_next(";ranks=")) {
      begin(";ranks=");
      std::vector<int64_t> ranks = dotted();
      if (std::ssize(ranks) != c.mesh.size()) fail("ranks must be as many as the mesh has");
      c.mesh = DeviceMesh(c.mesh.shape(), c.mesh.has_names() ? c.mesh.names() : std::vector<std::string>(),
                          std::move(ranks))
                   .on(c.mesh.device_type());
    }
    begin(";seed=");
    c.program.seed = number<uint64_t>();
    begin(";dev=");
    c.device = part(until(";"), parse_device_model);
    if (skip(";lane=integer")) c.integer_lane = true;
    if (skip(";numerics=fast")) c.numerics = Lane::kFast;
    if (is_next(";words=")) {
      begin(";words=");
      c.words = part(until(";"), parse_random_words);
      if (c.words == RandomWords::kPhilox) fail("Philox's words are not written out");
    }
    if (!is_next(";options=")) return;
    begin(";options=");
    do option(c);
    while (skip(','));
  }

  void option(Case& c) {
    auto name = word(kSuiteMarks, "an option's name");
    take(':', "after an option's name");
    auto value = word(kSuiteMarks, "an option's value");
    if (!c.options.empty() && name <= c.options.rbegin()->first) fail("options must stand once, in order");
    c.options.emplace(std::move(name), std::move(value));
  }

  std::vector<int64_t> dotted() {
    std::vector<int64_t> values = {number<int64_t>()};
    while (skip('.')) values.push_back(number<int64_t>());
    return values;
  }

  Target target() {
    take('@', "before placements");
    const size_t begin = at_;
    until("]");
    take(']', "after placements");
    Target t;
    t.placements = part(text_.substr(begin, at_ - begin), parse_placements);
    if (skip('@')) t.order = dotted();
    return t;
  }

  void input(Case& c) {
    take('x', "before an input's number");
    if (number<size_t>() != c.program.inputs.size()) fail("inputs must be numbered x0, x1, … in order");
    take('=', "after an input's name");
    Input in;
    in.dtype = part(until("["), parse_dtype);
    take('[', "before a shape");
    in.shape = part(until("]"), parse_shape);
    take(']', "after a shape");
    if (skip('/')) in.memory_order = dotted();
    take(':', "before an input's values");
    in.values = values();
    c.placements.push_back(peek() == '@' ? target() : Target{});
    in.requires_grad = skip('!');
    c.program.inputs.push_back(std::move(in));
    inputs_ = std::ssize(c.program.inputs);
  }

  Values values() {
    Values v;
    const std::string kind = word("", "a kind of values");
    const auto found = std::find(kValueKinds.begin(), kValueKinds.end(), kind);
    if (found == kValueKinds.end()) fail(concat("no kind of values is called '", kind, "'"));
    v.kind = static_cast<ValueKind>(found - kValueKinds.begin());
    if (skip('(')) {
      v.seed = number<uint64_t>();
      if (skip(',')) {
        v.low = number<int64_t>();
        take(',', "between low and high");
        v.high = number<int64_t>();
      }
      take(')', "after the values' seed");
    }
    if (skip('{')) {
      do v.bits.push_back(number<uint64_t>(16));
      while (skip('.'));
      take('}', "after the bits");
    }
    return v;
  }

  void call(Case& c) {
    Call call;
    if (skip('[')) {
      call.results = 0;
      if (!skip(']')) {
        do result(call.results++);
        while (skip(','));
        take(']', "after the results");
      }
    } else {
      result(0);
    }
    results_ += call.results;
    take('=', "after the results");
    call.op = word(kOpMarks, "an operator");
    take('(', "before the arguments");
    if (!skip(')')) {
      do call.args.push_back(arg());
      while (skip(','));
      take(')', "after the arguments");
    }
    c.program.calls.push_back(std::move(call));
  }

  void result(int64_t offset) {
    take('v', "before a result's number");
    if (number<int64_t>() != results_ + offset) fail("results must be numbered v0, v1, … in order");
  }

  std::optional<Ref> ref() {
    const bool input = peek() == 'x';
    if ((!input && peek() != 'v') || at_ + 1 >= text_.size() ||
        !std::isdigit(static_cast<unsigned char>(text_[at_ + 1])))
      return std::nullopt;
    ++at_;
    const auto id = number<int64_t>();
    if (input && id >= inputs_) fail(concat("there is no input x", id));
    return Ref{input ? id : inputs_ + id};
  }

  template <class Item>
  auto list(Item&& item) {
    std::vector<decltype(item())> items;
    if (skip(']')) return items;
    do items.push_back(item());
    while (skip(','));
    take(']', "after a list");
    return items;
  }

  Arg arg() {
    if (const auto r = ref()) return *r;
    if (peek() == '@') return target();
    if (peek() == '"') return string();
    if (skip("t[")) return list([this] { return skip("none") ? Ref{-1} : must_ref(); });
    if (skip("f[")) return list([this] { return as_double(scalar()); });
    if (skip("b[")) return list([this] { return boolean(scalar()); });
    if (skip("[")) return list([this] { return number<int64_t>(); });
    const std::string_view text = scalar();
    if (text == "none") return None{};
    if (text == "true" || text == "false") return text == "true";
    if (const auto value = parse_integer(text)) return *value;
    if (const auto value = parse_double(text)) return *value;
    return part(text, parse_dtype);
  }

  Ref must_ref() {
    const auto r = ref();
    if (!r) fail("expected a value such as x0 or v1");
    return *r;
  }

  std::string_view scalar() { return until(",)];"); }

  bool boolean(std::string_view text) const {
    if (text != "true" && text != "false") fail("expected true or false");
    return text == "true";
  }

  double as_double(std::string_view text) const {
    const auto value = parse_double(text);
    if (!value) fail(concat("'", text, "' is not a number"));
    return *value;
  }

  std::string string() {
    take('"', "before a string");
    std::string out;
    while (peek() != '"') {
      if (at_ >= text_.size()) fail("a string without an end");
      if (!skip('\\')) {
        out += text_[at_++];
        continue;
      }
      unsigned value = 0;
      const char* begin = text_.data() + at_;
      if (at_ + 2 > text_.size() || std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2) {
        fail("a bad escape in a string");
      }
      out += static_cast<char>(value);
      at_ += 2;
    }
    take('"', "after a string");
    return out;
  }

  std::string_view text_;
  size_t at_ = 0, statement_ = 0;
  int64_t inputs_ = 0, results_ = 0;
};

}  // namespace

Case parse_statements(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace lockstep::oracle

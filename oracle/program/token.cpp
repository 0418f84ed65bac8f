// SPDX-License-Identifier: Apache-2.0
// The text form of a Case: printing, parsing and the checksum. The grammar is in README.md.
#include <array>
#include <charconv>
#include <optional>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "engine/values/text.h"
#include "oracle/program/number_text.h"
#include "oracle/program/program.h"

namespace lockstep::oracle {
namespace {

constexpr std::string_view kVersion = "v1";
constexpr std::array<std::string_view, 8> kKinds = {"normal", "uniform", "integers", "special",
                                                    "index",  "zeros",   "ones",     "bits"};

// FNV-1a, folded to 32 bits: enough to notice a token cut short or mistyped.
std::string checksum(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  std::string digits = hex((h ^ (h >> 32)) & 0xffffffffULL);
  return std::string(8 - digits.size(), '0') + digits;
}

template <class Items, class Print>
std::string list_text(const Items& items, char separator, const Print& print) {
  std::string text;
  bool first = true;
  for (const auto& item : items) {
    if (!first) text += separator;
    first = false;
    text += print(item);
  }
  return text;
}

// ---- printing ----

std::string target_text(const Target& target) {
  return "@" + to_string(target.placements) + (target.order.empty() ? "" : "@" + join(target.order, '.'));
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const bool plain = c > 0x20 && c < 0x7f && c != '"' && c != '\\' && c != '\'';
    const std::string digits = hex(static_cast<unsigned char>(c));
    out += plain ? std::string(1, c) : "\\" + std::string(2 - digits.size(), '0') + digits;
  }
  return out + '"';
}

class Printer {
 public:
  explicit Printer(const Program& program) : inputs_(std::ssize(program.inputs)) {}

  std::string ref(const Ref& r) const {
    if (r.id < 0) return "none";
    return r.id < inputs_ ? concat('x', r.id) : concat('v', r.id - inputs_);
  }
  std::string operator()(const None&) const { return "none"; }
  std::string operator()(const Ref& r) const { return ref(r); }
  std::string operator()(const std::vector<Ref>& refs) const {
    return "t[" + list_text(refs, ',', [this](const Ref& r) { return ref(r); }) + "]";
  }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return double_text(value); }
  std::string operator()(const std::vector<int64_t>& values) const { return "[" + join(values, ',') + "]"; }
  std::string operator()(const std::vector<double>& values) const {
    return "f[" + list_text(values, ',', double_text) + "]";
  }
  std::string operator()(const std::vector<bool>& values) const {
    return "b[" + list_text(values, ',', [](bool v) { return v ? "true" : "false"; }) + "]";
  }
  std::string operator()(const std::string& text) const { return quoted(text); }
  std::string operator()(c10::ScalarType dtype) const { return dtype_name(dtype); }
  std::string operator()(const Target& target) const { return target_text(target); }

 private:
  int64_t inputs_;
};

std::string values_text(const Values& v) {
  std::string text{kKinds.at(static_cast<size_t>(v.kind))};
  if (v.low != 0 || v.high != 0) {
    text += concat('(', v.seed, ',', v.low, ',', v.high, ')');
  } else if (v.seed != 0 || v.kind == ValueKind::kNormal) {
    text += concat('(', v.seed, ')');
  }
  if (!v.bits.empty()) text += "{" + list_text(v.bits, '.', hex) + "}";
  return text;
}

std::string input_text(const Input& input, const Target& target) {
  std::string text = dtype_name(input.dtype) + "[" + shape_text(input.shape) + "]";
  if (!input.memory_order.empty()) text += "/" + join(input.memory_order, '.');
  return text + ":" + values_text(input.values) + target_text(target) + (input.requires_grad ? "!" : "");
}

// `name` stands where the token has "aten::…"; results are numbered from `first`.
std::string call_text(const Call& call, int64_t first, const Printer& print) {
  std::vector<std::string> results;
  for (int64_t r = 0; r < call.results; ++r) results.push_back(concat('v', first + r));
  std::string left = list_text(results, ',', [](const std::string& r) { return r; });
  if (call.results != 1) left = "[" + left + "]";
  return left + "=" + call.op + "(" +
         list_text(call.args, ',', [&](const Arg& a) { return std::visit(print, a); }) + ")";
}

bool is_word(std::string_view text, std::string_view others) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && others.find(c) == std::string_view::npos)
      return false;
  }
  return true;
}

constexpr std::string_view kSuiteMarks = "_-.";  // of options, too
constexpr std::string_view kOpMarks = "_:.";

std::string options_text(const Case& c) {
  for (const auto& [name, value] : c.options)
    LOCKSTEP_CHECK(is_word(name, kSuiteMarks) && is_word(value, kSuiteMarks), "[token] the option '", name,
                   "' of value '", value, "' must be words of letters, digits, '_', '-' and '.'");
  return list_text(c.options, ',', [](const auto& option) { return option.first + ":" + option.second; });
}

std::vector<int64_t> row_major_ranks(const DeviceMesh& mesh) {
  std::vector<int64_t> ranks;
  for (int64_t r = 0; r < mesh.size(); ++r) ranks.push_back(r);
  return ranks;
}

// ---- parsing ----

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
    const auto end = std::min(text_.find(';', statement_), text_.size());
    throw Error(concat(
        "[token] ", what, " at character ", at_ + kVersion.size() + 2, ", in the statement '",
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
                          std::move(ranks));
    }
    begin(";seed=");
    c.program.seed = number<uint64_t>();
    begin(";dev=");
    c.device = part(until(";"), parse_device_model);
    if (skip(";lane=integer")) c.integer_lane = true;
    if (skip(";numerics=fast")) c.numerics = Lane::kFast;
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
    c.placements.push_back(target());
    in.requires_grad = skip('!');
    c.program.inputs.push_back(std::move(in));
    inputs_ = std::ssize(c.program.inputs);
  }

  Values values() {
    Values v;
    const std::string kind = word("", "a kind of values");
    const auto found = std::find(kKinds.begin(), kKinds.end(), kind);
    if (found == kKinds.end()) fail(concat("no kind of values is called '", kind, "'"));
    v.kind = static_cast<ValueKind>(found - kKinds.begin());
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

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

}  // namespace

std::string to_token(const Case& c) {
  LOCKSTEP_CHECK(is_word(c.suite, kSuiteMarks), "[token] the suite's name '", c.suite,
                 "' must be letters, digits, '_', '-' or '.'");
  LOCKSTEP_CHECK(c.placements.size() == c.program.inputs.size(), "[token] ", c.program.inputs.size(),
                 " inputs but placements for ", c.placements.size());
  std::string text = concat(kVersion, ':', c.suite, ";mesh=", c.mesh);
  if (c.mesh.ranks() != row_major_ranks(c.mesh)) text += ";ranks=" + join(c.mesh.ranks(), '.');
  text += concat(";seed=", c.program.seed, ";dev=", to_string(c.device));
  text += concat(c.integer_lane ? ";lane=integer" : "", c.numerics == Lane::kFast ? ";numerics=fast" : "");
  if (!c.options.empty()) text += ";options=" + options_text(c);
  for (size_t i = 0; i < c.program.inputs.size(); ++i) {
    text += concat(";x", i, '=', input_text(c.program.inputs[i], c.placements[i]));
  }
  int64_t first = 0;
  const Printer print(c.program);
  for (const Call& call : c.program.calls) {
    LOCKSTEP_CHECK(is_word(call.op, kOpMarks), "[token] '", call.op, "' is not the name of an operator");
    text += ";" + call_text(call, first, print);
    first += call.results;
  }
  return text + "#" + checksum(text);
}

Case parse_token(std::string_view token) {
  token = trimmed(token);
  const auto colon = token.find(':');
  const bool versioned = token.size() > 1 && token[0] == 'v' && colon != std::string_view::npos &&
                         colon > 1 &&
                         token.substr(1, colon - 1).find_first_not_of("0123456789") == std::string_view::npos;
  LOCKSTEP_CHECK(versioned, "[token] '", token.substr(0, 24), "' is not a replay token: it must begin with '",
                 kVersion, ":'");
  LOCKSTEP_CHECK(token.substr(0, colon) == kVersion, "[token] this token has version ",
                 token.substr(0, colon), "; this program understands ", kVersion,
                 ". Replay it with a program of its own version.");
  const auto hash = token.rfind('#');
  LOCKSTEP_CHECK(hash != std::string_view::npos,
                 "[token] the checksum '#xxxxxxxx' is missing at the end: the token "
                 "was cut short. Copy it whole, in single quotes.");
  const std::string expected = checksum(token.substr(0, hash));
  LOCKSTEP_CHECK(token.substr(hash + 1) == expected, "[token] the checksum is '", token.substr(hash + 1),
                 "' but the text has '", expected,
                 "': a character was lost or changed. If you edited the token on "
                 "purpose, write #",
                 expected);
  return Parser(token.substr(colon + 1, hash - colon - 1)).parse();
}

}  // namespace lockstep::oracle

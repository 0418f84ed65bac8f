// SPDX-License-Identifier: Apache-2.0
// The text form of a Case: printing, its versions and the checksum. The grammar is in README.md.
#include <string>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "engine/values/text.h"
#include "oracle/program/number_text.h"
#include "oracle/program/program.h"
#include "oracle/program/token_parser.h"
#include "oracle/program/token_words.h"

namespace lockstep::oracle {
namespace {

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
  if (is_plain(target)) return "";
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
  std::string text{kValueKinds.at(static_cast<size_t>(v.kind))};
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
  std::string text = concat('v', token_version(c), ':', c.suite, ";mesh=", c.mesh);
  if (c.mesh.ranks() != row_major_ranks(c.mesh)) text += ";ranks=" + join(c.mesh.ranks(), '.');
  text += concat(";seed=", c.program.seed, ";dev=", to_string(c.device));
  text += concat(c.integer_lane ? ";lane=integer" : "", c.numerics == Lane::kFast ? ";numerics=fast" : "");
  if (c.words != RandomWords::kPhilox) text += concat(";words=", name(c.words));
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
  LOCKSTEP_CHECK(versioned, "[token] '", token.substr(0, 24),
                 "' is not a replay token: it must begin with 'v1:' or 'v2:'");
  const auto version = token.substr(1, colon - 1);
  LOCKSTEP_CHECK(version == "1" || version == "2", "[token] this token has version v", version,
                 "; this program understands v1 and v2. Replay it with a program of its own version.");
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
  Case c = parse_statements(token.substr(colon + 1, hash - colon - 1));
  LOCKSTEP_CHECK(
      version == "2" || token_version(c) == 1,
      "[token] this token says v1 and has options, forged words, plain inputs or statements that came with "
      "v2; write v2");
  return c;
}

}  // namespace lockstep::oracle

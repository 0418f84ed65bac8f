// SPDX-License-Identifier: Apache-2.0
// What a name may do to an output: nothing.
#include "ci/output/text.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lockstep::output {
namespace {

// Bytes of every kind, those that begin and continue characters more often than chance would have them.
rc::Gen<std::string> bytes() {
  return rc::gen::container<std::string>(
      rc::gen::weightedOneOf<char>({{4, rc::gen::inRange<char>(0x20, 0x7f)},
                                    {2, rc::gen::arbitrary<char>()},
                                    {1, rc::gen::element<char>('\n', '\t', '\r', '\0', '\x7f', '\x1b')},
                                    {1, rc::gen::element<char>('\xc2', '\xe2', '\xf0', '\xed', '\xef')},
                                    {1, rc::gen::element<char>('\x80', '\xa8', '\xae', '\xbf', '\x9b')}}));
}

// An independent reader of UTF-8: by the table of well-formed sequences of the Unicode standard.
bool well_formed(const std::string& s) {
  struct Form {
    int first, last, low, high, more;  // of the first byte; of the second; how many follow the second
  };
  static constexpr Form kForms[] = {{0xc2, 0xdf, 0x80, 0xbf, 0}, {0xe0, 0xe0, 0xa0, 0xbf, 1},
                                    {0xe1, 0xec, 0x80, 0xbf, 1}, {0xed, 0xed, 0x80, 0x9f, 1},
                                    {0xee, 0xef, 0x80, 0xbf, 1}, {0xf0, 0xf0, 0x90, 0xbf, 2},
                                    {0xf1, 0xf3, 0x80, 0xbf, 2}, {0xf4, 0xf4, 0x80, 0x8f, 2}};
  const auto at = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0; };
  for (size_t i = 0; i < s.size();) {
    if (at(i) < 0x80) {
      ++i;
      continue;
    }
    size_t length = 0;
    for (const Form& f : kForms) {
      if (at(i) < f.first || at(i) > f.last || at(i + 1) < f.low || at(i + 1) > f.high) continue;
      length = 2;
      for (int k = 0; k < f.more; ++k) length += at(i + length) >= 0x80 && at(i + length) <= 0xbf ? 1 : 100;
    }
    if (length == 0 || i + length > s.size()) return false;
    i += length;
  }
  return true;
}

void holds(const char* name, const auto& property) {
  EXPECT_TRUE(rc::check(name, property));
}

// Catches a byte that is let through, and a character that is not.
TEST(Text, Utf8IsValidAndLeavesValidTextAlone) {
  holds("valid", [] { RC_ASSERT(well_formed(utf8(*bytes()))); });
  holds("the same if it was valid", [] {
    const std::string text = *bytes();
    if (well_formed(text)) RC_ASSERT(utf8(text) == text);
    RC_ASSERT(utf8(utf8(text)) == utf8(text));
  });
}

// Catches a control character that reaches a terminal, XML or a log, and a line that ends early.
TEST(Text, OneLineHasNoControls) {
  holds("no controls", [] {
    const std::string line = one_line(*bytes());
    RC_ASSERT(well_formed(line));
    for (const char c : line) RC_ASSERT((static_cast<unsigned char>(c) >= 0x20 && c != '\x7f'));
    RC_ASSERT(line.find("\xc2\x9b") == std::string::npos);      // C1: begins a terminal's command
    RC_ASSERT(line.find("\xe2\x80\xae") == std::string::npos);  // turns the direction of writing
    RC_ASSERT(line.find("\xe2\x80\xa8") == std::string::npos);  // line separator
    RC_ASSERT(line.find("\xef\xbf\xbe") == std::string::npos);  // not allowed in XML
  });
  EXPECT_EQ(one_line("a\x1b[31m\n\x7f"), "a␛[31m␊␡");
  EXPECT_EQ(visible("a\nb\tc\r"), "a\nb\tc␍");
  EXPECT_EQ(one_line("\xe2\x80\xae x \xc2\x9b"), "\xef\xbf\xbd x \xef\xbf\xbd");
}

// Catches a cut inside a character, one that is longer than it may be, and one that nobody can see.
TEST(Text, CutsAtCharactersAndSaysSo) {
  holds("at most so many bytes", [] {
    const std::string text = utf8(*bytes()) + utf8(*bytes());
    const auto most = *rc::gen::inRange<size_t>(40, 80);
    const std::string short_text = cut(text, most);
    RC_ASSERT(short_text.size() <= most);
    RC_ASSERT(well_formed(short_text));
    RC_ASSERT((short_text == text) == (text.size() <= most));
  });
  EXPECT_EQ(cut(std::string(100, 'x'), 40), "xxxxxx… (+94 bytes)");
}

}  // namespace
}  // namespace lockstep::output

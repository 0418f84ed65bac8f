// SPDX-License-Identifier: Apache-2.0
// An engine that breaks the rules of the wire, each time in one way.   bad_peer MODE
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

namespace {

// Reads a request with its payload; false at the end.
bool request() {
  std::string line;
  if (!std::getline(std::cin, line)) return false;
  const auto at = line.find("\"bytes\":");
  std::string payload(at == std::string::npos ? 0 : std::stoul(line.substr(at + 8)), ' ');
  std::cin.read(payload.data(), static_cast<std::streamsize>(payload.size()));
  return true;
}

void say(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::string hello(const std::string& wire = "1", const std::string& capabilities = "{}") {
  return "{\"type\":\"hello\",\"wire\":" + wire +
         ",\"name\":\"bad\",\"version\":\"1\",\"capabilities\":" + capabilities + "}\n";
}

std::string result(const std::string& rest) {
  return "{\"type\":\"result\",\"id\":1," + rest + "}\n";
}

// Of two values on two ranks: f32[4] whole, and a second one.
std::string values(const std::string& second) {
  return "\"values\":[{\"dtype\":\"f32\",\"shape\":[4],\"placements\":[\"R\"],\"locals\":[{\"dtype\":\"f32\","
         "\"shape\":[4]},{\"dtype\":\"f32\",\"shape\":[4]}]}," +
         second + "]";
}

void forever(const std::string& text) {
  while (true) say(text);
}

void first_word(const std::string& mode) {
  if (mode == "exits") std::exit(3);
  if (mode == "mute") pause();
  if (mode == "talks") say("Loading the engine, please wait\n");
  if (mode == "another-wire") say(hello("99"));
  if (mode == "boasts") say(hello("1", "{\"placements\":7}"));
  say(hello());
}

void answer(const std::string& mode) {
  static const std::map<std::string, std::string> texts = {
      {"garbage", std::string("\x00\xff\xfe{\n", 5)},
      {"no-object", "[1,2,3]\n"},
      {"deep", std::string(100000, '[') + "\n"},
      {"another-id", "{\"type\":\"result\",\"id\":7}\n"},
      {"no-type", "{\"id\":1}\n"},
      {"another-type", "{\"type\":\"poem\",\"id\":1}\n"},
      {"refuses", "{\"type\":\"refused\",\"id\":1,\"op\":\"aten::neg\",\"reason\":\"not today\"}\n"},
      {"errs", "{\"type\":\"error\",\"id\":1,\"reason\":\"out of ideas\"}\n"},
      {"huge-payload", "{\"type\":\"result\",\"id\":1,\"bytes\":1152921504606846976}\n"},
      {"negative-payload", "{\"type\":\"result\",\"id\":1,\"bytes\":-1}\n"},
      {"no-values", result("\"values\":[]")},
      {"no-list", result("\"values\":7")},
      {"few-bytes", result(values("null") + ",\"bytes\":8") + "12345678"},
      {"many-bytes", result(values("null") + ",\"bytes\":40") + std::string(40, 'x')},
      {"huge-shape",
       result(values("{\"dtype\":\"f32\",\"shape\":[1099511627776,1099511627776],\"placements\":"
                     "[\"R\"],\"locals\":[]}") +
              ",\"bytes\":32") +
           std::string(32, 'x')},
      {"negative-shape",
       result(values("{\"dtype\":\"f32\",\"shape\":[-4],\"placements\":[\"R\"],\"locals\":[]}") +
              ",\"bytes\":32") +
           std::string(32, 'x')},
      {"no-dtype", result(values("{\"dtype\":\"f7\",\"shape\":[4],\"placements\":[\"R\"],\"locals\":[]}") +
                          ",\"bytes\":32") +
                       std::string(32, 'x')},
      {"no-placement",
       result(values("{\"dtype\":\"f32\",\"shape\":[4],\"placements\":[\"S9\"],\"locals\":[]}") +
              ",\"bytes\":32") +
           std::string(32, 'x')},
      {"few-locals", result(values("{\"dtype\":\"f32\",\"shape\":[4],\"placements\":[\"R\"],\"locals\":[]}") +
                            ",\"bytes\":32") +
                         std::string(32, 'x')},
      {"bad-timeline",
       result(values("null") + ",\"timeline\":[{\"op\":\"aten::neg\",\"args\":[],"
                               "\"tensors_per_arg\":[1],\"inputs\":[],\"outputs\":[]}],\"bytes\":32") +
           std::string(32, 'x')},
  };
  if (const auto found = texts.find(mode); found != texts.end()) return say(found->second);
  if (mode == "cut-short") say(result(values("null") + ",\"bytes\":32") + "1234"), std::exit(0);
  if (mode == "dies") std::abort();
  if (mode == "leaves") std::exit(5);
  if (mode == "hangs") pause();
  if (mode == "drips")
    for (;; sleep(1)) say("{");
  if (mode == "floods") forever("{\"x\":\"" + std::string(1 << 20, 'x'));
}

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[1];
  if (!request()) return 0;
  first_word(mode);
  while (request()) answer(mode);
}

// SPDX-License-Identifier: Apache-2.0
// The server over a real socket: what it refuses, and what it says with every answer.
#include "dashboard/serve/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "dashboard/pages/site.h"
#include "dashboard/store/testing_fill.h"

namespace lockstep::dashboard {
namespace {

using testing::TemporaryFolder;

// A server on a free port of this machine, with one ordinary store "a".
struct Running {
  TemporaryFolder folder;
  std::unique_ptr<Site> site;
  std::unique_ptr<Server> server;
  int port = 0;
  std::thread thread;

  Running() {
    {
      Store store = Store::open_writer(folder / "a.db");
      testing::fill(store, "plain");
    }
    site = std::make_unique<Site>(std::vector<std::string>{folder / "a.db"});
    site->wait_until_ready();
    server = std::make_unique<Server>(*site);
    port = server->bind("127.0.0.1", 0);
    thread = std::thread([this] { server->serve(); });
  }
  ~Running() {
    server->stop();
    thread.join();
  }

  // Sends these bytes and reads until the server closes.
  std::string raw(const std::string& request) const {
    const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::string answer;
    // Until serve() listens, a connection may be refused.
    for (int i = 0;
         i < 200 && connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0; ++i)
      usleep(10'000);
    (void)!send(descriptor, request.data(), request.size(), MSG_NOSIGNAL);
    char buffer[4096];
    for (ssize_t n; (n = recv(descriptor, buffer, sizeof(buffer), 0)) > 0;)
      answer.append(buffer, static_cast<size_t>(n));
    close(descriptor);
    return answer;
  }
  std::string ask(const std::string& method, const std::string& target, const std::string& more = "",
                  const std::string& host = "127.0.0.1") const {
    return raw(method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\n" + more + "\r\n");
  }
};

int status(const std::string& answer) {
  return answer.size() > 12 ? std::atoi(answer.c_str() + 9) : 0;
}

bool has(const std::string& answer, const std::string& text) {
  return answer.find(text) != std::string::npos;
}

// Catches: an answer without one of the headers, a page that scripts from elsewhere could run in.
TEST(Server, EveryAnswerCarriesTheHeaders) {
  const Running running;
  for (const std::string& answer :
       {running.ask("GET", "/db/a/"), running.ask("GET", "/page.js"), running.ask("GET", "/no"),
        running.ask("POST", "/db/a/"), running.ask("GET", "/", "", "evil.example")}) {
    for (const char* header :
         {"Content-Security-Policy: default-src 'none'; script-src 'self';",
          "X-Content-Type-Options: nosniff", "Referrer-Policy: no-referrer", "X-Frame-Options: DENY",
          "Cross-Origin-Resource-Policy: same-origin", "Connection: close"})
      EXPECT_TRUE(has(answer, header)) << header << " in " << answer.substr(0, 900);
    const std::string policy =
        answer.substr(answer.find("script-src"), answer.find("style-src") - answer.find("script-src"));
    EXPECT_FALSE(has(policy, "unsafe")) << policy;
  }
  EXPECT_TRUE(has(running.ask("GET", "/db/a/"), "Server-Timing: page;dur="));
  EXPECT_TRUE(has(running.ask("GET", "/db/a/"), "Cache-Control: no-store"));
}

// Catches: a method that changes something, or is answered as if it read; a HEAD with a body.
TEST(Server, OnlyReads) {
  const Running running;
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"}) {
    const std::string answer = running.ask(method, "/db/a/", "Content-Length: 0\r\n");
    EXPECT_TRUE(status(answer) == 405 || status(answer) == 400) << method << ": " << answer.substr(0, 60);
  }
  EXPECT_TRUE(has(running.ask("POST", "/db/a/"), "Allow: GET, HEAD"));
  const std::string head = running.ask("HEAD", "/db/a/");
  EXPECT_EQ(status(head), 200);
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << "a HEAD has no body";
  EXPECT_EQ(status(running.ask("NONSENSE", "/")), 400);
}

// Catches: DNS rebinding: another site's name that leads here.
TEST(Server, TheHostIsChecked) {
  const Running running;
  for (const char* host :
       {"127.0.0.1", "localhost", "localhost:8642", "LOCALHOST", "[::1]:1", "192.168.0.7:80"})
    EXPECT_EQ(status(running.ask("GET", "/db/a/", "", host)), 200) << host;
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "[::1",
                           "a:b:c", "evil.example:80", "127.0.0.1@evil.example"})
    EXPECT_EQ(status(running.ask("GET", "/db/a/", "", host)), 403) << host;
  EXPECT_EQ(status(running.raw("GET /db/a/ HTTP/1.0\r\n\r\n")), 403) << "without a Host";
  EXPECT_EQ(status(running.ask("GET", "/db/a/", "Host: evil.example\r\n")), 403) << "with two";
  EXPECT_TRUE(host_is_ours("ci-box:80", "ci-box"));
  EXPECT_FALSE(host_is_ours("ci-box:80", "127.0.0.1"));
  EXPECT_TRUE(is_loopback("127.3.2.1"));
  EXPECT_FALSE(is_loopback("0.0.0.0"));
  EXPECT_FALSE(is_loopback("127.example"));
}

// Catches: a path that leaves the site, in any spelling.
TEST(Server, NoPathReachesAFile) {
  const Running running;
  for (const char* path : {"/../a.db", "/..%2fa.db", "/%2e%2e/%2e%2e/etc/passwd", "/db/a/../../../etc/passwd",
                           "//etc/passwd", "/db/a/%00", "/page.css/..", "/db/..%5c..%5cetc", "/etc/passwd",
                           "/db/a/....//", "/proc/self/environ"}) {
    const std::string answer = running.ask("GET", path);
    EXPECT_TRUE(status(answer) == 404 || status(answer) == 400) << path << ": " << status(answer);
    EXPECT_FALSE(has(answer, "root:")) << path;
    EXPECT_FALSE(has(answer, "SQLite format")) << path;
  }
}

// Catches: a request without end that takes memory or a thread, a body taken for the next request.
TEST(Server, RequestsHaveLimits) {
  const Running running;
  EXPECT_EQ(status(running.ask("GET", "/" + std::string(10'000, 'a'))), 414);
  EXPECT_GE(status(running.ask("GET", "/", "X: " + std::string(10'000, 'a') + "\r\n")), 400);
  std::string many;
  for (int i = 0; i < 100; ++i) many += "X-" + std::to_string(i) + ": 1\r\n";
  EXPECT_EQ(status(running.ask("GET", "/", many)), 431);
  const std::string two = running.raw(
      "POST /db/a/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\n\r\nGET /db/a/ HTTP/1.1\r\nHost: "
      "localhost\r\n\r\n");
  EXPECT_EQ(two.find("HTTP/1.1", 9), std::string::npos) << "one answer";
  EXPECT_EQ(status(running.ask("GET", "/db/a/", "Content-Length: 5\r\n")), 413);
}

// Catches: an address in use that goes unnoticed, so that two servers take turns.
TEST(Server, APortInUseIsAnError) {
  const Running running;
  Server second(*running.site);
  EXPECT_THROW(second.bind("127.0.0.1", running.port), CannotListen);
  EXPECT_THROW(second.bind("203.0.113.7", 0), CannotListen);
}

// Catches: pages that disturb each other when they are asked for at once.
TEST(Server, ManyReadersAtOnce) {
  const Running running;
  std::vector<std::thread> readers;
  std::atomic<int> good = 0;
  for (int i = 0; i < 12; ++i)
    readers.emplace_back([&, i] {
      for (int k = 0; k < 5; ++k) {
        const bool one = (i + k) % 2 == 0;
        const std::string answer = running.ask("GET", one ? "/db/a/cases?run=1" : "/db/a/");
        good += status(answer) == 200 && has(answer, one ? "run plain" : "newest build");
      }
    });
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(good, 60);
}

}  // namespace
}  // namespace lockstep::dashboard

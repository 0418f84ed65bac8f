// SPDX-License-Identifier: Apache-2.0
#include "dashboard/serve/server.h"

#include <arpa/inet.h>
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "dashboard/pages/site.h"

namespace lockstep::dashboard {

namespace {

// Scripts come from here alone and never from a page's text; widths of bars are style attributes.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' "
    "data:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

constexpr int kThreads = 8;
constexpr int kSeconds = 20;     // to send a request, and to take an answer
constexpr size_t kMostBody = 0;  // no request that we answer has one
constexpr size_t kMostHeaders = 64;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_address(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  return inet_pton(AF_INET, host.c_str(), &four) == 1 || inet_pton(AF_INET6, host.c_str(), &six) == 1;
}

// "[::1]:80" -> "::1", "localhost:80" -> "localhost"; "" if it is neither.
std::string host_of(const std::string& header) {
  if (header.starts_with("[")) {
    const size_t end = header.find(']');
    return end == std::string::npos ? "" : header.substr(1, end - 1);
  }
  return header.substr(0, header.find(':'));
}

void headers(httplib::Response& response) {
  const std::pair<const char*, const char*> all[] = {{"Content-Security-Policy", kPolicy},
                                                     {"X-Content-Type-Options", "nosniff"},
                                                     {"Referrer-Policy", "no-referrer"},
                                                     {"X-Frame-Options", "DENY"},
                                                     {"Cross-Origin-Opener-Policy", "same-origin"},
                                                     {"Cross-Origin-Resource-Policy", "same-origin"}};
  for (const auto& [name, value] : all) response.set_header(name, value);
  if (!response.has_header("Cache-Control")) response.set_header("Cache-Control", "no-store");
}

void refuse(httplib::Response& response, int status, const std::string& words) {
  response.status = status;
  response.set_content(words + "\n", "text/plain; charset=utf-8");
}

}  // namespace

bool is_loopback(const std::string& host) {
  return lower(host) == "localhost" || host == "::1" || (is_address(host) && host.starts_with("127."));
}

bool host_is_ours(const std::string& header, const std::string& told) {
  const std::string host = lower(host_of(header));
  if (host.empty()) return false;
  return is_address(host) || host == "localhost" || host == lower(told);
}

struct Server::Impl {
  Site& site;
  std::string told;
  httplib::Server http;
  std::atomic<bool> begun = false, ended = false, stopping = false;

  explicit Impl(Site& s) : site(s) {}

  // True if the request is refused; the answer is then written.
  bool refused(const httplib::Request& request, httplib::Response& response) {
    if (request.get_header_value_count("Host") != 1 ||
        !host_is_ours(request.get_header_value("Host"), told)) {
      refuse(response, 403,
             "This server answers under its address, not under this name. Open the address that it printed.");
    } else if (request.method != "GET" && request.method != "HEAD") {
      response.set_header("Allow", "GET, HEAD");
      refuse(response, 405, "Nothing can be changed here: only GET and HEAD.");
    } else if (request.has_header("Content-Length") && request.get_header_value("Content-Length") != "0") {
      refuse(response, 413, "A request for a page has no body.");
    } else if (request.has_header("Transfer-Encoding")) {
      refuse(response, 413, "A request for a page has no body.");
    } else if (request.headers.size() > kMostHeaders) {
      refuse(response, 431, "Too many headers.");
    } else {
      return false;
    }
    return true;
  }

  void answer(const httplib::Request& request, httplib::Response& response) {
    Parameters list(request.params.begin(), request.params.end());
    const Answer answer = site.answer(request.path, Query(std::move(list)));
    response.status = answer.status;
    if (!answer.location.empty()) response.set_header("Location", answer.location);
    if (answer.status == 503) {
      response.set_header("Retry-After", "1");
      response.set_header("Refresh", "1");
    }
    char timing[60];
    std::snprintf(timing, sizeof(timing), "page;dur=%.1f", answer.seconds * 1e3);
    response.set_header("Server-Timing", timing);
    if (answer.for_ever) response.set_header("Cache-Control", "public, max-age=31536000, immutable");
    response.set_content(answer.body, answer.type);
  }
};

Server::Server(Site& site) : impl_(std::make_unique<Impl>(site)) {
  httplib::Server& http = impl_->http;
  http.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  // Without SO_REUSEPORT, which the library sets by itself and which lets two servers share a port unseen.
  http.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  // One request a connection: what a refused request left unread is never taken for the next one.
  http.set_keep_alive_max_count(1);
  http.set_read_timeout(kSeconds);
  http.set_write_timeout(kSeconds);
  http.set_payload_max_length(kMostBody);
  http.set_tcp_nodelay(true);
  http.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    if (!impl_->refused(request, response)) impl_->answer(request, response);
    headers(response);
    return httplib::Server::HandlerResponse::Handled;
  });
  http.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty()) {
      const int status = response.status;
      refuse(response, status, "The request was not understood.");
    }
    headers(response);
  });
}

Server::~Server() = default;

int Server::bind(const std::string& host, int port) {
  impl_->told = host;
  const int bound = port == 0                              ? impl_->http.bind_to_any_port(host)
                    : impl_->http.bind_to_port(host, port) ? port
                                                           : -1;
  if (bound > 0) return bound;
  throw CannotListen(
      "cannot listen on " + host + " port " + std::to_string(port) +
      ": another program does, or the address is not of this machine; choose another with --port "
      "(0: any free one) or --host");
}

void Server::serve() {
  impl_->begun = true;
  if (!impl_->stopping) impl_->http.listen_after_bind();
  impl_->ended = true;
}

// The library forgets a stop that comes before it listens.
void Server::stop() {
  impl_->stopping = true;
  while (impl_->begun && !impl_->ended && !impl_->http.is_running())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  impl_->http.stop();
}

}  // namespace lockstep::dashboard

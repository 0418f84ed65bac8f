// SPDX-License-Identifier: Apache-2.0
// The site over HTTP: only GET and HEAD, only for this machine unless told otherwise, and with headers that
// let a page load nothing but its own style and scripts.
#pragma once
#include <memory>
#include <stdexcept>
#include <string>

namespace lockstep::dashboard {

class Site;

// Why the server cannot listen: the port is taken, or the address is not one of this machine.
struct CannotListen : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Law: a Host header is accepted if it is an address, "localhost", or the name that the server was told to
// listen on. A page of another site that points its own name at this machine gets 403.
bool host_is_ours(const std::string& header, const std::string& told);
// True of "localhost" and the addresses 127.… and ::1.
bool is_loopback(const std::string& host);

class Server {
 public:
  explicit Server(Site& site);
  ~Server();

  // Port 0: any free one. @returns the port. @throws CannotListen.
  int bind(const std::string& host, int port);
  // Serves until stop() is called from another thread. Requests that are being answered are finished.
  void serve();
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::dashboard

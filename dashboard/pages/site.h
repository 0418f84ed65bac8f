// SPDX-License-Identifier: Apache-2.0
// The site: from a path and a query to a page, without a socket. Nothing in a request reaches the file
// system: databases are chosen by their name in the list, style and scripts are compiled in.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dashboard/pages/database.h"
#include "dashboard/pages/query.h"

namespace lockstep::dashboard {

struct Answer {
  int status = 200;
  std::string type = "text/html; charset=utf-8";
  std::string body{};
  std::string location{};  // of a redirection
  bool for_ever = false;   // a browser may keep it: its address changes with it
  double seconds = 0;      // that it took to make
};

class Site {
 public:
  // The names of the databases are those of the files, made unique. @throws StoreError if one cannot be used.
  explicit Site(const std::vector<std::string>& paths);

  // `path` decoded, beginning with "/". Never throws; what goes wrong is a page that says so.
  Answer answer(const std::string& path, const Query& query);
  // Waits until every database is ready. @throws StoreError if one cannot be read.
  void wait_until_ready();
  std::vector<std::string> names() const;

 private:
  Answer page_of(const std::string& path, const Query& query);
  Answer database_page(Database& database, const std::string& page, const Query& query);
  Answer compare(const Query& query);
  Answer home();
  std::string links(const Database* here, const std::string& page, const Parameters& scope) const;

  std::vector<std::unique_ptr<Database>> databases_;
};

}  // namespace lockstep::dashboard

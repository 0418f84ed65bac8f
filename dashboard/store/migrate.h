// SPDX-License-Identifier: Apache-2.0
// Steps from one version of the schema to the next, and the check that the tables are the ones those steps
// make.
#pragma once
#include "dashboard/store/store.h"

namespace lockstep::dashboard {

// @post user_version is the number of migrations, the views are those of views.sql. Each step is one
// transaction: killed at any moment, the database has the version before or after a step. On the last version
// it does nothing.
void migrate(SQLite::Database& db, Migrations migrations);

// @throws StoreError(corrupt) unless every table, index and view that the migrations make is there, with the
// same text. More of them, made by a user, are welcome.
void check_tables(SQLite::Database& db, const std::string& path, Migrations migrations);

}  // namespace lockstep::dashboard

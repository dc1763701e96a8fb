// The house rules over the whole repository, and each rule over a text that breaks it: a rule that cannot fail is none.
#include <algorithm>

#include "gtest/gtest.h"
#include "tests/tidy/rules.h"

namespace varifocal::tidy {
namespace {

TEST(TidyTest, TheRepositoryKeepsItsRules) {
  const std::vector<SourceFile> files = ReadTree(".");
  ASSERT_GT(files.size(), 20u) << "run from the repository root";
  for (const SourceFile& file : files) {
    for (const Complaint& complaint : CheckFile(file)) {
      ADD_FAILURE() << complaint.path << ":" << complaint.line << ": " << complaint.message;
    }
  }
}

struct Broken {
  const char* name;
  const char* path;
  const char* text;
  const char* message;  // a part of the complaint
};

class BrokenFile : public testing::TestWithParam<Broken> {};

TEST_P(BrokenFile, IsFound) {
  const auto complaints = CheckFile({GetParam().path, GetParam().text});
  ASSERT_EQ(complaints.size(), 1u) << (complaints.empty() ? "no complaint" : complaints.back().message);
  EXPECT_NE(complaints[0].message.find(GetParam().message), std::string::npos) << complaints[0].message;
}

INSTANTIATE_TEST_SUITE_P(
    EveryRule, BrokenFile,
    testing::Values(Broken{"edge", "db/writer.cc", "#include \"kernels/tensor.h\"\n", "db must not include"},
                    Broken{"upwards", "server/model/x.cc", "#include \"server/engine/engine.h\"\n", "must not include"},
                    Broken{"client_links_server", "client/verbs/run.cc", "#include \"server/server.h\"\n",
                           "must not include"},
                    Broken{"kernels_base", "kernels/x.cc", "#include \"base/json.h\"\n", "base/check.h alone"},
                    Broken{"sqlite_home", "db/reader.cc", "#include <sqlite3.h>\n", "db/sqlite"},
                    Broken{"json_home", "tokenizer/x.cc", "#include <nlohmann/json.hpp>\n", "base/json"},
                    Broken{"absl_in_kernels", "kernels/x.cc", "#include \"absl/strings/str_cat.h\"\n", "absl"},
                    Broken{"grpc_home", "server/engine/x.cc", "#include <grpcpp/grpcpp.h>\n", "server/rpc"},
                    Broken{"no_comment", "base/x.h", "#pragma once\n\n#pragma once\n", "opens with"},
                    Broken{"no_pragma", "base/x.h", "// A thing.\n", "#pragma once"},
                    Broken{"todo", "base/x.cc", "// TODO: later\n", "names its issue"},
                    Broken{"fixme", "base/x.py", "# FIXME\n", "leftover"},
                    Broken{"machine_path", "docs/x.md", "see /work/main\n", "one machine"},
                    Broken{"distribution", "base/x.cc", "std::uniform_int_distribution<int> d;\n", "base/random"},
                    Broken{"string_view", "db/x.cc", "void F(std::string_view x);\n", "absl::string_view"},
                    Broken{"select_star", "db/x.cc", "auto q = \"SELECT * FROM jobs\";\n", "names its columns"},
                    Broken{"insert", "db/migrations/1.sql", "INSERT INTO jobs VALUES (1);\n", "names its columns"},
                    Broken{"strict", "db/migrations/1.sql", "CREATE TABLE t (a INTEGER NOT NULL);\n", "STRICT"},
                    Broken{"default", "db/migrations/1.sql", "  a INTEGER NOT NULL DEFAULT 0,\n", "DEFAULT"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(TidyTest, WhatIsAllowedStaysQuiet) {
  EXPECT_TRUE(CheckFile({"server/jobs/x.cc", "#include \"db/writer.h\"\n"}).empty());
  EXPECT_TRUE(CheckFile({"client/embedded.cc", "#include \"server/server.h\"\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/sqlite/database.cc", "#include <sqlite3.h>\n"}).empty());
  EXPECT_TRUE(CheckFile({"base/x.cc", "// TODO(#12): say it to the issue\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/migrations/1.sql", "CREATE TABLE t (\n  a INTEGER NOT NULL\n) STRICT;\n"}).empty());
}

}  // namespace
}  // namespace varifocal::tidy

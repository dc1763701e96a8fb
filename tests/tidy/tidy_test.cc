// The style rules over the whole repository, and each rule over a text that violates it.

#include "gtest/gtest.h"
#include "tests/tidy/rules.h"

namespace varifocal::tidy {
namespace {

TEST(TidyTest, TheRepositoryFollowsTheRules) {
  const std::vector<SourceFile> files = ReadTree(".");
  ASSERT_GT(files.size(), 20u) << "run from the repository root";
  for (const Complaint& complaint : CheckTree(files)) {
    ADD_FAILURE() << complaint.path << ":" << complaint.line << ": " << complaint.message;
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
    testing::Values(
        Broken{"edge", "db/writer.cc", "#include \"kernels/tensor.h\"\n", "db must not include"},
        Broken{"upwards", "server/model/x.cc", "#include \"server/engine/engine.h\"\n", "must not include"},
        Broken{"client_links_server", "client/verbs/run.cc", "#include \"server/server.h\"\n", "must not include"},
        Broken{"server_links_client", "server/main.cc", "#include \"client/flags.h\"\n", "must not include"},
        Broken{"messages_home", "server/x.cc", "#include \"varifocal/v1/config.pb.h\"\n", "wire/"},
        Broken{"services_outside_rpc", "wire/x.cc", "#include \"varifocal/v1/inference.grpc.pb.h\"\n", "server/rpc"},
        Broken{"kernels_base", "kernels/x.cc", "#include \"base/json.h\"\n", "base/wide_product.h alone"},
        Broken{"sqlite_home", "db/reader.cc", "#include <sqlite3.h>\n", "db/sqlite"},
        Broken{"json_home", "tokenizer/x.cc", "#include <nlohmann/json.hpp>\n", "base/json"},
        Broken{"absl_in_kernels", "kernels/x.cc", "#include \"absl/strings/str_cat.h\"\n", "absl"},
        Broken{"grpc_home", "server/engine/x.cc", "#include <grpcpp/grpcpp.h>\n", "server/rpc"},
        Broken{"no_comment", "base/x.h", "#pragma once\n\n#pragma once\n", "opens with"},
        Broken{"no_pragma", "base/x.h", "// A thing.\n", "#pragma once"},
        Broken{"todo", "base/x.cc", "// TODO: later\n", "names its issue"},
        Broken{"fixme", "base/x.py", "# FIXME\n", "leftover"},
        Broken{"machine_path", "docs/x.md", "see /work/main\n", "machine-specific"},
        Broken{"distribution", "base/x.cc", "std::uniform_int_distribution<int> d;\n", "base/random"},
        Broken{"early_grep", "deploy/x.sh", "tar -t x || exit\ntar -t x |grep -F -xq y\n", "reads all"},
        Broken{"early_head", "deploy/x.sh", "ls -t | head -n 1\n", "reads all"},
        Broken{"wording", "base/x.h", "// Nothing goes on.\n\n#pragma once\n", "standard technical term"},
        Broken{"string_view", "db/x.cc", "void F(std::string_view x);\n", "absl::string_view"},
        Broken{"bare_mutex", "db/x.h", "// A thing.\n\n#pragma once\n  mutable std::mutex mutex_;\n", "base/mutex.h"},
        Broken{"bare_lock", "server/x_test.cc", "std::unique_lock<std::mutex> lock(mutex);\n", "base/mutex.h"},
        Broken{"unused_lock", "db/x.cc", "int a;\nstatic Mutex mutex;\nint b VF_GUARDED_BY(other);\n",
               "mutex guards nothing"},
        Broken{
            "second_lock", "db/x.cc",
            "struct A {\n  Mutex mutex;\n  int a VF_GUARDED_BY(mutex);\n};\nstruct B {\n  mutable Mutex mutex;\n};\n",
            "mutex guards nothing"},
        Broken{"ordered_lock", "db/x.h", "// X.\n\n#pragma once\n\n  Mutex mutex_ VF_ACQUIRED_BEFORE(b_);\n",
               "mutex_ guards nothing"},
        Broken{"prose", "db/x_test.cc",
               "EXPECT_THAT(x, HasSubstr(\"p < 0.05: no answer \"\n  \"is equal to another\"));\n", "use Message"},
        Broken{"joined_prose", "db/x_test.cc", "AllOf(HasSubstr(absl::StrCat(\"it must be from zero \", y)))\n",
               "use Message"},
        Broken{"equal_prose", "db/x_test.cc", "EXPECT_EQ(x.status().message(),\n          \"row 2 is not there\");\n",
               "use Message"},
        Broken{"joined_equal_prose", "db/x_test.cc",
               "EXPECT_EQ(x.message(), absl::StrCat(\"row is not there \", y));\n", "use Message"},
        Broken{"contained_prose", "db/x_test.cc", "absl::StrContains(F(a, b), \"no rows left\")\n", "use Message"},
        Broken{"found_prose", "db/x_test.cc", "EXPECT_NE(x.find(\"no rows left\"), y);\n", "use Message"},
        Broken{"prose_at_the_start", "db/x_test.cc", "testing::StartsWith(\"no rows left\")\n", "use Message"},
        Broken{"prose_at_the_end", "db/x_test.cc", "absl::EndsWith(x, \"no rows left\")\n", "use Message"},
        Broken{"select_star", "db/x.cc", "auto q = \"SELECT * FROM jobs\";\n", "names its columns"},
        Broken{"insert", "db/migrations/1.sql", "INSERT INTO jobs VALUES (1);\n", "names its columns"},
        Broken{"strict", "db/migrations/1.sql", "CREATE TABLE t (a INTEGER NOT NULL);\n", "STRICT"},
        Broken{"default", "db/migrations/1.sql", "  a INTEGER NOT NULL DEFAULT 0,\n", "DEFAULT"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(TidyTest, GeneratedHeadersBelongToARoom) {
  EXPECT_EQ(CheckIncludeEdges({"server/jobs/x.cc", "#include \"varifocal/v1/config.pb.h\"\n"}).size(), 1u);
  EXPECT_EQ(CheckIncludeEdges({"db/x.cc", "#include \"google/rpc/status.pb.h\"\n"}).size(), 1u);
  EXPECT_TRUE(CheckIncludeEdges({"wire/x.cc", "#include \"varifocal/v1/config.pb.h\"\n"}).empty());
}

std::string MessagesOf(const std::vector<Complaint>& complaints) {
  std::string text;
  for (const Complaint& complaint : complaints) text += complaint.path + ": " + complaint.message + "\n";
  return text;
}

TEST(TidyTest, UnusedFilesAreFound) {
  EXPECT_EQ(MessagesOf(CheckDeadFiles({{"db/CMakeLists.txt", "SOURCES used.cc sub/used.cc not_dead.cc"},
                                       {"recipes/a/used.cc", ""},
                                       {"recipes/a/used.py", ""},
                                       {"recipes/a/dead.cc", ""},
                                       {"db/dead.cc", "#include \"db/dead.h\"\n"},
                                       {"db/dead.h", ""},
                                       {"db/used.cc", "#include \"db/used.h\"\n#include \"db/sub/used.h\"\n"},
                                       {"db/sub/used.cc", "#include \"db/used.h\"\n"},
                                       {"db/sub/used.h", ""},
                                       {"db/used.h", ""}})),
            "recipes/a/dead.cc: no CMake file lists this file\n"
            "db/dead.cc: no CMake file lists this file\ndb/dead.h: no file includes this header\n");
}

TEST(TidyTest, DeadNamesAreFound) {
  EXPECT_EQ(MessagesOf(CheckDeadNames({{"db/x.h",
                                        "struct Dead {\n};\nstruct Used {\n};\nUsed Called(int a);\nvoid Uncalled();\n"
                                        "inline constexpr int kUnread = 1;\ninline constexpr int kRead = 2;\n"
                                        "void Qualified();\nVF_DEVICE void Caller() {\n  x::Qualified();\n}\n"},
                                       {"db/x.cc",
                                        "Used Called(int a) {\n  return {};\n}\nvoid Uncalled() {  // not Dead\n"
                                        "  Called(kRead);\n}\n"}})),
            "db/x.h: Dead is declared and never used\ndb/x.h: Uncalled is declared and never used\n"
            "db/x.h: kUnread is declared and never used\n");
}

TEST(TidyTest, NamesOfTestsAloneAreFound) {
  const SourceFile header = {"db/x.h",
                             "struct Reader {\n  int Used(int a);\n  int Tested();\n  int Seam();  // for tests\n};\n"
                             "void Checked();\n// For tests: all of them.\nvoid Listed();\nvoid HoldForTesting();\n"};
  const SourceFile source = {
      "db/x.cc",
      "#include \"db/x.h\"\nint Reader::Used(int a) {\n  return a;\n}\nint Reader::Tested() {\n  return Used(1);\n}\n"};
  const SourceFile fixture = {"db/fixture.h", "#include \"db/x.h\"\ninline void Fixture() {\n  Checked();\n}\n"};
  const SourceFile test = {"db/x_test.cc",
                           "#include \"db/fixture.h\"\nTEST(X, Y) {\n  Fixture();\n  Reader().Tested();\n"
                           "  Reader().Seam();\n  Listed();\n  HoldForTesting();\n}\n"};
  EXPECT_EQ(MessagesOf(CheckDeadNames({header, source, fixture, test})),
            "db/x.h: Checked is used by tests alone\ndb/x.h: Tested is used by tests alone\n");
  const SourceFile user = {"db/y.cc", "#include \"db/fixture.h\"\nvoid Y() {\n  Reader().Tested();\n}\n"};
  EXPECT_EQ(MessagesOf(CheckDeadNames({header, source, fixture, test, user})),
            "db/fixture.h: Fixture is used by tests alone\n");
}

TEST(TidyTest, UnusedRulesAreFound) {
  const std::string unused = MessagesOf(
      CheckRulesAreUsed({{"db/sqlite/x.cc", "#include <sqlite3.h>\n"}, {"db/x.cc", "#include \"base/json.h\"\n"}}));
  EXPECT_EQ(unused.find("sqlite3"), std::string::npos) << unused;
  EXPECT_EQ(unused.find("the room db may"), std::string::npos) << unused;
  EXPECT_NE(unused.find("the room tokenizer may include base, and no file does"), std::string::npos) << unused;
  EXPECT_NE(unused.find("base/json may include nlohmann/.*, and no file does"), std::string::npos) << unused;
}

TEST(TidyTest, AllowedTextsPass) {
  EXPECT_TRUE(CheckFile({"wire/x.cc", "#include \"varifocal/v1/config.pb.h\"\n"}).empty());
  EXPECT_TRUE(CheckFile({"server/jobs/x.cc", "#include \"db/writer.h\"\n"}).empty());
  EXPECT_TRUE(CheckFile({"client/embedded.cc", "#include \"server/server.h\"\n"}).empty());
  EXPECT_TRUE(CheckFile({"kernels/x.cc", "#include \"base/mutex.h\"\n"}).empty());
  EXPECT_TRUE(CheckFile({"base/mutex.h", "// A mutex.\n\n#pragma once\nstd::mutex m;\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/x.cc", "  Mutex mutex;\n  int a VF_GUARDED_BY(mutex);\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/x.cc", "  Mutex mutex;\n  int* a VF_PT_GUARDED_BY(mutex);\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/x.cc", "  Mutex mutex;  // one at a time\n\n  // Likewise.\n  Mutex b;\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/sqlite/database.cc", "#include <sqlite3.h>\n"}).empty());
  EXPECT_TRUE(CheckFile({"base/x.cc", "// TODO(#12): say it to the issue\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/x_test.cc", "HasSubstr(\"| two of, five words | a row |\")\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/x_test.cc", "HasSubstr(\"two words\"), \"of a longer sentence\")\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/x_test.cc", "HasSubstr(\"<pre>varifocal run quick --out=x\")\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/x_test.cc", "EndsWith(\",cut truncated imported,8\")\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/x_test.cc", "EXPECT_THAT(x.message(), Message(3, \"two of five words\"));\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/x_test.cc", "EXPECT_EQ(x, \"the whole of a short text\");\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/x.cc", "HasSubstr(\"a matcher of an option\")\n"}).empty());
  EXPECT_TRUE(CheckFile({"db/migrations/1.sql", "CREATE TABLE t (\n  a INTEGER NOT NULL\n) STRICT;\n"}).empty());
}

}  // namespace
}  // namespace varifocal::tidy

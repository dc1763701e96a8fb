// Parsers of what users of the client and of the server send as text.
#include <string>

#include "base/check.h"
#include "client/judgments.h"
#include "client/suite_file.h"
#include "db/fakes/fake_results.h"
#include "db/writer.h"
#include "server/rpc/access.h"
#include "server/rpc/page_token.h"
#include "tests/fuzz/targets.h"
#include "tests/support/process.h"
#include "wire/resource_names.h"

namespace varifocal {
namespace {

// An accepted suite is valid, and its job has a canonical form.
void RunSuiteFile(absl::string_view bytes) {
  const auto config = client::ParseSuite(bytes, "suite.yaml");
  if (!config.ok()) return ExpectRefusal(config.status());
  const auto suite = client::ToSuiteSpec(*config);
  if (!suite.ok()) return ExpectRefusal(suite.status());
  VF_CHECK(!suite->name.empty() && !suite->lengths.empty() && !suite->tasks.empty() && suite->samples > 0);
}

// The bytes as a file of judgments about a finished job.
void RunJudgments(absl::string_view bytes) {
  static const auto* const directory = new testing_support::TemporaryDirectory;
  const std::string database = directory->File("results.db");
  static const bool is_written = [&database] {
    const auto writer = db::Writer::Open(database);
    VF_CHECK(writer.ok());
    const db::NewJob job = db::FakeJob({.planned_count = 2});
    const int64_t execution_id = *(*writer)->AddExecution(db::FakeExecution());
    const auto cells = (*writer)->Cells((*writer)->AddJob(job)->job_id);
    for (const db::CellRow& cell : *cells) {
      for (int64_t i = 0; i < 2; ++i)
        VF_CHECK((*writer)->RecordSample(db::FakeOutcome(cell, job, execution_id, i)).ok());
    }
    return true;
  }();
  VF_CHECK(is_written);
  const std::string path = directory->File("judgments.jsonl");
  testing_support::WriteFile(path, std::string(bytes));
  const auto results = client::ImportJudgments({.paths = {path}, .database_path = database});
  if (!results.ok()) ExpectRefusal(results.status());
}

void RunNames(absl::string_view bytes) {
  const auto key = ParsePageToken("jobs", bytes);
  if (key.ok()) {
    VF_CHECK(bytes.empty() || *ParsePageToken("jobs", MakePageToken("jobs", *key)) == *key);
  } else {
    ExpectRefusal(key.status());
  }
  const auto job_id = ParseJobResource(bytes, "name");
  if (job_id.ok()) {
    VF_CHECK(*job_id > 0);
  } else {
    ExpectRefusal(job_id.status());
  }
  const auto model = ParseModelResource(bytes, "name");
  if (model.ok()) {
    VF_CHECK(ModelResource(*model) == bytes);
  } else {
    ExpectRefusal(model.status());
  }
}

void RunTokenFile(absl::string_view bytes) {
  const auto tokens = Tokens::Parse(bytes);
  if (!tokens.ok()) ExpectRefusal(tokens.status());
}

}  // namespace

const std::vector<FuzzTarget>& ClientFuzzTargets() {
  static const auto* const targets = new std::vector<FuzzTarget>{
      {"suite_file", RunSuiteFile, {"eval_tasks/suites/quick.yaml", "tests/integration/tiny.yaml"}},
      {"judgments", RunJudgments, {"tests/fuzz/seeds/judgments.jsonl"}},
      {"names", RunNames, {"tests/fuzz/seeds/page_token.txt"}},
      {"token_file", RunTokenFile, {"tests/fuzz/seeds/tokens.txt"}},
  };
  return *targets;
}

}  // namespace varifocal

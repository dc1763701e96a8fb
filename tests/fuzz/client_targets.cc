// Parsers of what users of the client and of the server, and other servers, send as text.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "base/http_server.h"
#include "base/json.h"
#include "base/reason.h"
#include "client/dashboard/dashboard.h"
#include "client/files.h"
#include "client/flags.h"
#include "client/judgments.h"
#include "client/suite_file.h"
#include "db/fakes/fake_results.h"
#include "db/query.h"
#include "db/writer.h"
#include "eval_tasks/job_spec.h"
#include "server/endpoint/completion.h"
#include "server/endpoint/endpoint_spec.h"
#include "server/front/listen_address.h"
#include "server/front/tls_material.h"
#include "server/hosting/generation_defaults.h"
#include "server/model/config.h"
#include "server/rpc/access.h"
#include "server/rpc/page_token.h"
#include "server/workers/worker_addresses.h"
#include "tests/fuzz/targets.h"
#include "tests/support/process.h"
#include "wire/resource_names.h"

namespace varifocal {
namespace {

// An accepted suite is valid, and its job has a canonical form.
void RunSuiteFile(absl::string_view bytes) {
  ASSIGN_OR_REFUSE(const auto config, client::ParseSuite(bytes, "suite.yaml"));
  ASSIGN_OR_REFUSE(const auto suite, client::ToSuiteSpec(config));
  VF_CHECK(!suite.name.empty() && !suite.lengths.empty() && !suite.tasks.empty() && suite.samples > 0);
}

// The path of a file with these bytes; the same one for every input of a target.
std::string InputFileOf(absl::string_view bytes, const std::string& name) {
  static const auto* const directory = new TemporaryDirectory;
  std::string path = directory->File(name);
  WriteFile(path, std::string(bytes));
  return path;
}

// A database with a finished job.
const std::string& Database() {
  static const auto* const directory = new TemporaryDirectory;
  static const auto* const path = [] {
    auto* const database = new std::string(directory->File("results.db"));
    const auto writer = db::Writer::Open(*database);
    VF_CHECK(writer.ok());
    const db::NewJob job = db::FakeJob({.planned_count = 2});
    db::AddFakeJob(**writer, job);
    return database;
  }();
  return *path;
}

// The bytes as a file of judgments about a finished job.
void RunJudgments(absl::string_view bytes) {
  const std::string path = InputFileOf(bytes, "judgments.jsonl");
  ExpectOkOrRefusal(client::ImportJudgments({.paths = {path}, .database_path = Database()}).status());
}

// The bytes as the SQL of `varifocal query`; the first rows are read.
void RunSql(absl::string_view bytes) {
  constexpr int kRowsMax = 100;
  int row_count = 0;
  size_t column_count = 0;
  const absl::Status status =
      db::RunQuery(Database(), std::string(bytes),
                   {.start =
                        [&](const std::vector<std::string>& columns) {
                          column_count = columns.size();
                          return absl::OkStatus();
                        },
                    .add =
                        [&](std::vector<Json> values) {
                          VF_CHECK(values.size() == column_count);
                          return ++row_count < kRowsMax ? absl::OkStatus() : absl::CancelledError("enough rows");
                        }});
  if (!status.ok() && !absl::IsCancelled(status)) ExpectOkOrRefusal(status);
}

// The bytes as what a browser sends to the dashboard; "PORT" is the server's. The answer is HTTP or a closed
// connection, and the next request is answered. The server does not read from a connection that its client has shut down
// for writing.
std::string Exchange(int port, absl::string_view bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  VF_CHECK(fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t count = send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (count <= 0) break;  // refused before all was read
    at += count;
  }
  // Half of a header, or a line that ends with the input: the server waits for more of it for seconds.
  const timeval wait = {.tv_sec = 0, .tv_usec = 300'000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  std::string answer;
  char buffer[4096];
  for (ssize_t count; (count = recv(fd, buffer, sizeof(buffer), 0)) > 0;) answer.append(buffer, count);
  close(fd);
  return answer;
}

void RunDashboard(absl::string_view bytes) {
  static auto* const dashboard = new client::Dashboard(Database());
  static const auto* const server =
      new auto(HttpServer::Start(0, [](const HttpRequest& request) { return dashboard->Answer(request); }));
  VF_CHECK(server->ok());
  const int port = (**server)->port();
  const std::string answer =
      Exchange(port, absl::StrCat(absl::StrReplaceAll(bytes, {{"PORT", absl::StrCat(port)}}), "\r\n\r\n"));
  VF_CHECK(answer.empty() || absl::StartsWith(answer, "HTTP/1."));
  const std::string known = absl::StrCat("GET /style.css HTTP/1.1\r\nHost: localhost:", port, "\r\n\r\n");
  VF_CHECK(absl::StartsWith(Exchange(port, known), "HTTP/1.1 200"));
}

// The bytes as a reply of a model server.
void RunCompletion(absl::string_view bytes) {
  CompletionRequest request;
  request.model = "m";
  request.token_ids = {5, 6, 7};
  request.max_new_tokens = 2;
  for (const bool with_logprobs : {false, true}) {
    request.logprobs = request.echo = with_logprobs;
    const auto completion = ParseCompletion(request, bytes);
    if (completion.ok()) {
      VF_CHECK(completion->new_token_count <= request.max_new_tokens && completion->prompt_token_count >= 0);
    } else {
      VF_CHECK(absl::StartsWith(ReasonOf(completion.status()).name, "ENDPOINT_"));
    }
  }
  const auto models = ParseModels(bytes);
  if (!models.ok()) VF_CHECK(absl::StartsWith(ReasonOf(models.status()).name, "ENDPOINT_"));
  VF_CHECK(ErrorText(bytes).size() <= 300);
}

void RunGenerationConfig(absl::string_view bytes) {
  constexpr int64_t kVocabularySize = 1000;
  const auto eos = ParseGenerationConfigEos(bytes, kVocabularySize);
  if (!eos.ok()) ExpectOkOrRefusal(eos.status());
  if (eos.ok() && eos->has_value()) {
    for (const int32_t id : **eos) VF_CHECK(id >= 0 && id < kVocabularySize);
  }
  const std::string path = InputFileOf(bytes, "generation_config.json");
  ExpectOkOrRefusal(ReadSamplingDefaults(path.substr(0, path.rfind('/')), kVocabularySize).status());
}

// One file with certificate, key and authority.
void RunTlsFile(absl::string_view bytes) {
  const std::string path = InputFileOf(bytes, "tls.pem");
  ExpectOkOrRefusal(ReadTlsMaterial({.certificate = path, .key = path, .client_ca = path}).status());
}

// Values of flags.
void RunFlagValues(absl::string_view bytes) {
  ExpectOkOrRefusal(ParseVariantList(bytes).status());
  ExpectOkOrRefusal(ParseOverrideValues(kFocalTemperature, bytes).status());
  const auto shard = ParseShard(bytes);
  if (shard.ok()) VF_CHECK(shard->index >= 1 && shard->index <= shard->count);
  const auto length = client::ParseContextLength(bytes);
  if (length.ok()) VF_CHECK(*length >= 1);
  ExpectOkOrRefusal(ParseListenAddress(std::string(bytes)).status());
  ExpectOkOrRefusal(ParseWorkerAddresses(std::string(bytes)).status());
  ExpectOkOrRefusal(ParseEndpointSpec(bytes).status());
  ExpectOkOrRefusal(client::ReadTokenIds(InputFileOf(bytes, "ids.json")).status());
}

void RunNames(absl::string_view bytes) {
  const auto key = ParsePageToken("jobs", bytes);
  if (key.ok()) {
    VF_CHECK(bytes.empty() || *ParsePageToken("jobs", MakePageToken("jobs", *key)) == *key);
  } else {
    ExpectOkOrRefusal(key.status());
  }
  const auto job_id = ParseJobResource(bytes, "name");
  if (job_id.ok()) {
    VF_CHECK(*job_id > 0);
  } else {
    ExpectOkOrRefusal(job_id.status());
  }
  const auto model = ParseModelResource(bytes, "name");
  if (model.ok()) {
    VF_CHECK(ModelResource(*model) == bytes);
  } else {
    ExpectOkOrRefusal(model.status());
  }
}

void RunTokenFile(absl::string_view bytes) { ExpectOkOrRefusal(Tokens::Parse(bytes).status()); }

}  // namespace

const std::vector<FuzzTarget>& ClientFuzzTargets() {
  static const auto* const targets = new std::vector<FuzzTarget>{
      {"suite_file", RunSuiteFile, {"eval_tasks/suites/quick.yaml", "tests/integration/tiny.yaml"}},
      {"judgments", RunJudgments, {"tests/fuzz/seeds/judgments.jsonl"}},
      {"sql", RunSql, {"tests/fuzz/seeds/query.txt"}},
      {"dashboard", RunDashboard, {"tests/fuzz/seeds/http_page.txt", "tests/fuzz/seeds/http_report.txt"}},
      {"completion", RunCompletion, {"tests/fuzz/seeds/completion.json", "tests/fuzz/seeds/models.json"}},
      {"generation_config",
       RunGenerationConfig,
       {"models/baseline/generation_config.json", "tests/fuzz/seeds/generation_config.json"}},
      {"tls_file", RunTlsFile, {"tests/fuzz/seeds/tls.pem"}},
      {"flag_values", RunFlagValues, {"tests/fuzz/seeds/variants.txt", "tests/fuzz/seeds/endpoint.txt"}},
      {"names", RunNames, {"tests/fuzz/seeds/page_token.txt"}},
      {"token_file", RunTokenFile, {"tests/fuzz/seeds/tokens.txt"}},
  };
  return *targets;
}

}  // namespace varifocal

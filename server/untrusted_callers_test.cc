// Restrictions for untrusted callers: files, services, the database's files, and the audit log. Method: the real
// program with a shipped checkpoint.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "grpcpp/grpcpp.h"
#include "tests/support/connected_channel.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class UntrustedCallersTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"models", "data", "private"}) fs::create_directories(directory_.File(folder));
    for (const char* folder : {"models/inside", "private/outside", "named"})
      fs::copy("models/baseline", directory_.File(folder), fs::copy_options::recursive);
    WriteFile(directory_.File("data/rows.jsonl"), kRow);
    WriteFile(directory_.File("private/rows.jsonl"), kRow);
  }

  void Connect(const std::string& address) {
    channel_ = ConnectedChannel(address);
    inference_ = v1::Inference::NewStub(channel_);
    evaluation_ = v1::Evaluation::NewStub(channel_);
  }

  grpc::Status Load(const std::string& name, const std::string& directory) {
    v1::LoadModelRequest request;
    request.set_model_id(name);
    request.set_directory(directory);
    v1::Model model;
    grpc::ClientContext context;
    return inference_->LoadModel(&context, request, &model);
  }

  grpc::Status DryRun(const std::string& kind, const std::string& parameter, const std::string& path) {
    v1::SubmitJobRequest request;
    request.set_validate_only(true);
    v1::SuiteConfig* suite = request.mutable_spec()->mutable_suite();
    suite->set_name("mine");
    suite->add_lengths(1024);
    v1::TaskConfig* task = suite->add_tasks();
    task->set_kind(kind);
    (*task->mutable_parameters())[parameter] = path;
    if (parameter == "novels") {
      suite->set_samples(4);
    } else if (kind == "jsonl") {
      (*task->mutable_parameters())["prompt"] = "{q}";
      (*task->mutable_parameters())["gold"] = "a";
    }
    request.mutable_spec()->add_variants()->set_model("models/named");
    v1::SubmitJobResponse response;
    grpc::ClientContext context;
    return evaluation_->SubmitJob(&context, request, &response);
  }

  std::vector<std::string> Arguments() const {
    return {absl::StrCat("--db=", directory_.File("r.db")), absl::StrCat("--model=named=", directory_.File("named"))};
  }

  static constexpr char kRow[] = R"({"q": "one and one?", "a": "two", "secret": "sk-12345"})";
  TemporaryDirectory directory_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::Evaluation::Stub> evaluation_;
};

TEST_F(UntrustedCallersTest, FilesOutsideOfTheRootsAreNotReadNorToldOf) {
  // Every file of a checkpoint in turn is a link out of the root.
  const std::vector<std::string> files = {"config.json", "generation_config.json", "tokenizer.json", "chat_format.json",
                                          "model.safetensors"};
  for (const std::string& file : files) {
    const fs::path copy = directory_.File("models/linked_" + file);
    fs::copy("models/baseline", copy, fs::copy_options::recursive);
    fs::remove(copy / file);
    fs::create_symlink(directory_.File("private/outside/" + file), copy / file);
  }
  fs::create_directory_symlink("../private/outside", directory_.File("models/link"));
  std::vector<std::string> arguments = Arguments();
  arguments.push_back(absl::StrCat("--model-root=", directory_.File("models")));
  arguments.push_back(absl::StrCat("--data-root=", directory_.File("data")));
  DaemonProcess daemon(arguments);
  const std::string address = daemon.Address();
  ASSERT_NE(address, "") << daemon.Errors();
  Connect(address);

  EXPECT_TRUE(Load("inside", directory_.File("models/inside")).ok());
  EXPECT_TRUE(Load("again", directory_.File("named")).ok()) << "what the command line names is allowed";
  EXPECT_TRUE(DryRun("jsonl", "path", directory_.File("data/rows.jsonl")).ok());
  const auto expect_refused = [&](const grpc::Status& status, const std::string& path) {
    EXPECT_EQ(status.error_code(), grpc::PERMISSION_DENIED) << path << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), testing::MatchesRegex(".* is not below a directory of --(model|data)-root"));
    EXPECT_THAT(status.error_details(), HasSubstr("PATH_OUTSIDE_ROOTS")) << path;
  };
  for (const char* name : {"private/outside", "private/absent", "models/link", "models/../private/outside", "data"})
    expect_refused(Load("x", directory_.File(name)), name);
  for (const std::string& file : files) expect_refused(Load("x", directory_.File("models/linked_" + file)), file);
  struct Case {
    const char* kind;
    const char* parameter;
  };
  for (const Case& c :
       {Case{"jsonl", "path"}, Case{"short", "path"}, Case{"helmet", "path"}, Case{"longqa_novel", "novels"}}) {
    for (const char* name : {"private/rows.jsonl", "private/absent", "data/../private/rows.jsonl", "models/inside"})
      expect_refused(DryRun(c.kind, c.parameter, directory_.File(name)), absl::StrCat(c.kind, " ", name));
  }
  expect_refused(DryRun("jsonl", "path", "/etc/shadow"), "/etc/shadow");
}

TEST_F(UntrustedCallersTest, AUnixSocketIsForItsUserAlone) {
  const std::string socket = directory_.File("v.sock");
  std::vector<std::string> arguments = Arguments();
  arguments.push_back(absl::StrCat("--listen=unix:", socket));
  arguments.push_back(absl::StrCat("--port-file=", directory_.File("ready")));
  for (const int signal : {SIGKILL, SIGTERM}) {  // the second one finds the socket of the first
    BackgroundProcess daemon("varifocald", arguments);
    ASSERT_TRUE(daemon.WaitForFile(directory_.File("ready"), 60)) << daemon.Errors();
    EXPECT_EQ(ReadFile(directory_.File("ready")), socket + "\n");
    struct stat info;
    ASSERT_EQ(lstat(socket.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    Connect(absl::StrCat("unix:", socket));
    EXPECT_TRUE(DryRun("jsonl", "path", directory_.File("data/rows.jsonl")).ok());
    std::vector<std::string> second = arguments;
    second[0] = absl::StrCat("--db=", directory_.File("other.db"));
    const auto refused = RunProcess("varifocald", second);
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.err.substr(refused.err.find("varifocald: ")), Message(socket));
    fs::remove(directory_.File("ready"));
    daemon.Signal(signal);
    EXPECT_EQ(daemon.Wait(60), signal == SIGKILL ? 128 + SIGKILL : 0) << daemon.Errors();
  }
  EXPECT_FALSE(fs::exists(socket));
}

TEST_F(UntrustedCallersTest, TheDatabaseIsForItsUserAlone) {
  DaemonProcess daemon(Arguments());
  ASSERT_NE(daemon.Address(), "") << daemon.Errors();
  for (const char* suffix : {"", "-wal", "-shm", ".lock"}) {
    struct stat info;
    ASSERT_EQ(stat(directory_.File(absl::StrCat("r.db", suffix)).c_str(), &info), 0) << suffix;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << suffix;
  }
}

TEST_F(UntrustedCallersTest, EveryChangeIsWrittenDownWithItsCaller) {
  DaemonProcess daemon(Arguments());
  const std::string address = daemon.Address();
  ASSERT_NE(address, "") << daemon.Errors();
  Connect(address);
  ASSERT_TRUE(Load("second", directory_.File("models/inside")).ok());
  EXPECT_FALSE(Load("third", directory_.File("absent") + std::string(100'000, 'x')).ok());
  v1::SubmitJobRequest submit;
  submit.mutable_spec()->mutable_suite()->set_name("small");
  submit.mutable_spec()->mutable_suite()->add_lengths(1024);
  submit.mutable_spec()->mutable_suite()->set_samples(400);
  submit.mutable_spec()->mutable_suite()->add_tasks()->set_kind("recall_kv");
  submit.mutable_spec()->add_variants()->set_model("models/named");
  v1::SubmitJobResponse submitted;
  grpc::ClientContext submit_context;
  ASSERT_TRUE(evaluation_->SubmitJob(&submit_context, submit, &submitted).ok());
  v1::CancelJobRequest cancel;
  cancel.set_name("jobs/1");
  v1::Job job;
  grpc::ClientContext cancel_context;
  ASSERT_TRUE(evaluation_->CancelJob(&cancel_context, cancel, &job).ok());
  v1::ResumeJobRequest resume;
  resume.set_name("jobs/99");
  grpc::ClientContext resume_context;
  EXPECT_FALSE(evaluation_->ResumeJob(&resume_context, resume, &job).ok());
  v1::UnloadModelRequest unload;
  unload.set_name("models/second");
  v1::UnloadModelResponse unloaded;
  grpc::ClientContext unload_context;
  ASSERT_TRUE(inference_->UnloadModel(&unload_context, unload, &unloaded).ok());
  ASSERT_TRUE(DryRun("jsonl", "path", directory_.File("data/rows.jsonl")).ok());  // changes nothing
  daemon.Signal(SIGTERM);
  ASSERT_EQ(daemon.Wait(60), 0);
  const std::string log = daemon.Errors();
  std::string lines;
  for (size_t at = log.find(" change call="); at != log.npos; at = log.find(" change call=", at + 1))
    absl::StrAppend(&lines, log.substr(at + 1, log.find('\n', at) - at));
  const std::string peer = "peer=ipv4:127.0.0.1:[0-9]+ token=none certificate=none ";
  EXPECT_THAT(lines, testing::ContainsRegex("change call=LoadModel " + peer +
                                            "resource=models/second=[^ ]*inside status=OK\n"));
  EXPECT_THAT(lines, testing::ContainsRegex("change call=LoadModel " + peer +
                                            "resource=models/third=[^ ]*xxx status=INVALID_ARGUMENT\n"));
  EXPECT_THAT(lines, testing::ContainsRegex("change call=SubmitJob " + peer + "resource=jobs/1 status=OK\n"));
  EXPECT_THAT(lines, testing::ContainsRegex("change call=CancelJob " + peer + "resource=jobs/1 status=OK\n"));
  EXPECT_THAT(lines, testing::ContainsRegex("change call=ResumeJob " + peer + "resource=jobs/99 status=NOT_FOUND\n"));
  EXPECT_THAT(lines, testing::ContainsRegex("change call=UnloadModel " + peer + "resource=models/second status=OK\n"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 6) << lines;
  EXPECT_LT(lines.size(), 3000u) << "caller-supplied text is truncated";
}

TEST_F(UntrustedCallersTest, CallsThatAreRefusedAreWrittenDownWithTheirCaller) {
  WriteFile(directory_.File("tokens"),
            absl::StrCat("viewer ", Sha256Hex("v"), " vera\nviewer ", Sha256Hex("e"), " eve 2020-01-01T00:00:00Z\n"));
  std::vector<std::string> arguments = Arguments();
  arguments.push_back(absl::StrCat("--token-file=", directory_.File("tokens")));
  DaemonProcess daemon(arguments);
  const std::string address = daemon.Address();
  ASSERT_NE(address, "") << daemon.Errors();
  Connect(address);
  const auto unload = [&](const char* token) {
    grpc::ClientContext context;
    if (token[0] != 0) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
    v1::UnloadModelRequest request;
    v1::UnloadModelResponse response;
    return inference_->UnloadModel(&context, request, &response).error_code();
  };
  EXPECT_EQ(unload(""), grpc::UNAUTHENTICATED);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(unload("guess"), grpc::UNAUTHENTICATED);
  EXPECT_EQ(unload("v"), grpc::PERMISSION_DENIED);
  EXPECT_EQ(unload("e"), grpc::UNAUTHENTICATED);
  daemon.Signal(SIGTERM);
  ASSERT_EQ(daemon.Wait(60), 0);
  const std::string log = daemon.Errors();
  const std::string line = "refused what=UnloadModel peer=ipv4:127.0.0.1 token=";
  EXPECT_THAT(log, HasSubstr(line + "none cause=UNAUTHENTICATED count=1\n"));
  EXPECT_THAT(log, HasSubstr(line + "none cause=UNAUTHENTICATED count=100\n")) << "those after it, as one";
  EXPECT_THAT(log, HasSubstr(line + "vera cause=PERMISSION_DENIED count=1\n"));
  EXPECT_THAT(log, HasSubstr(line + "eve cause=TOKEN_EXPIRED count=1\n"));
}

}  // namespace
}  // namespace varifocal

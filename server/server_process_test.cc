// The daemon as a process: flags and their errors, signals, crashes. Method: the real program with a shipped
// checkpoint; a small job is interrupted by SIGTERM or SIGKILL and a second daemon must finish it with every sample
// answered once.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "db/reader.h"
#include "grpcpp/grpcpp.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/connected_channel.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"
#include "wire/protobuf_log.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

constexpr char kDaemon[] = "varifocald";
constexpr int kSampleCount = 24;

class DaemonTest : public testing::Test {
 protected:
  std::vector<std::string> Arguments() const {
    return {absl::StrCat("--db=", directory_.File("r.db")), "--model=baseline=models/baseline", "--in-flight=2"};
  }

  static std::string Submit(const std::string& address, const std::string& model = "models/baseline") {
    const auto stub = v1::Evaluation::NewStub(ConnectedChannel(address));
    v1::SubmitJobRequest request;
    v1::SuiteConfig* suite = request.mutable_spec()->mutable_suite();
    suite->set_name("small");
    suite->add_lengths(1024);
    suite->set_samples(kSampleCount);
    suite->add_tasks()->set_kind("recall_kv");
    request.mutable_spec()->add_variants()->set_model(model);
    v1::SubmitJobResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub->SubmitJob(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.job().name();
  }

  static v1::Job WaitFor(const std::string& address, const std::string& name, int done_count) {
    const auto stub = v1::Evaluation::NewStub(ConnectedChannel(address));
    v1::GetJobRequest request;
    request.set_name(name);
    v1::Job job;
    for (int i = 0; i < 6000; ++i) {
      grpc::ClientContext context;
      const grpc::Status status = stub->GetJob(&context, request, &job);
      if (!status.ok()) {
        ADD_FAILURE() << status.error_message();
        return job;
      }
      const bool is_settled = job.state() == v1::Job::SUCCEEDED || job.state() == v1::Job::FAILED;
      if (is_settled || job.progress().done_count() >= done_count) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return job;
  }

  int64_t AnsweredCount() const {
    auto reader = db::Reader::Open(directory_.File("r.db"));
    if (!reader.ok()) return -1;
    const auto job = (*reader)->Job(1);
    return job.ok() ? job->answered_count : -1;
  }

  // Starts the job, stops the daemon by `signal` after some samples, lets a second daemon finish.
  void InterruptAndFinish(int signal, int exit_code) {
    {
      DaemonProcess daemon(Arguments());
      const std::string address = daemon.Address();
      ASSERT_NE(address, "") << daemon.Errors();
      const std::string name = Submit(address);
      ASSERT_LT(WaitFor(address, name, 3).progress().done_count(), kSampleCount);
      daemon.Signal(signal);
      EXPECT_EQ(daemon.Wait(20), exit_code) << daemon.Errors();
    }
    const int64_t kept = AnsweredCount();
    EXPECT_GE(kept, 3);
    EXPECT_LT(kept, kSampleCount);

    DaemonProcess second(Arguments());
    const std::string address = second.Address();
    ASSERT_NE(address, "") << second.Errors();
    v1::Job job = WaitFor(address, "jobs/1", kSampleCount);
    for (int i = 0; i < 500 && job.state() != v1::Job::SUCCEEDED; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      job = WaitFor(address, "jobs/1", kSampleCount);
    }
    EXPECT_EQ(job.state(), v1::Job::SUCCEEDED) << job.error_message();
    EXPECT_EQ(job.progress().done_count(), kSampleCount);
    EXPECT_EQ(job.progress().failed_count(), 0);
    EXPECT_FALSE(job.mixed());
    ASSIGN_OR_FAIL(auto reader, db::Reader::Open(directory_.File("r.db")));
    ASSIGN_OR_FAIL(const auto executions, reader->Executions(1));
    ASSERT_EQ(executions.size(), 2u);
    EXPECT_EQ(executions[0].generation_count, kept) << "answered samples did not run again";
    EXPECT_EQ(executions[1].generation_count, kSampleCount - kept);
    second.Signal(SIGINT);
    EXPECT_EQ(second.Wait(20), 0);
  }

  TemporaryDirectory directory_;
};

TEST_F(DaemonTest, TermPutsTheJobBackAndExitsZero) { InterruptAndFinish(SIGTERM, 0); }
TEST_F(DaemonTest, KilledDaemonLosesNothing) { InterruptAndFinish(SIGKILL, 128 + SIGKILL); }

// Standard error is a pipe without a reading process, small enough to fill immediately; or one whose reader has exited.
TEST_F(DaemonTest, AReaderOfTheLogThatStopsOrLeavesStopsNothing) {
  DiscardProtobufMessages();
  for (const bool reader_leaves : {false, true}) {
    SCOPED_TRACE(reader_leaves);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    const std::string port_file = directory_.File(absl::StrCat("port", reader_leaves));
    std::vector<std::string> arguments = Arguments();
    arguments.insert(arguments.begin(), ProgramPath(kDaemon));
    arguments[1] = absl::StrCat("--db=", directory_.File(absl::StrCat("log", reader_leaves, ".db")));
    arguments.push_back("--listen=127.0.0.1:0");
    arguments.push_back(absl::StrCat("--port-file=", port_file));
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(ends[1], 2);
      close(ends[0]);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    if (reader_leaves) close(ends[0]);
    std::string port;
    for (int i = 0; i < 6000 && port.empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      port = ReadFile(port_file);
    }
    ASSERT_NE(port, "");
    const std::string address = absl::StrCat("127.0.0.1:", absl::StripSuffix(port, "\n"));
    // Every such request is a line of more than 100 bytes, which the protobuf library writes.
    const auto stub = v1::Evaluation::NewStub(ConnectedChannel(address));
    v1::GetJobRequest not_utf8;
    not_utf8.set_name("\xff");
    for (int i = 0; i < 60; ++i) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
      v1::Job job;
      ASSERT_EQ(stub->GetJob(&context, not_utf8, &job).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << i;
    }
    // Every sample is a line of about 200 bytes.
    EXPECT_EQ(WaitFor(address, Submit(address), kSampleCount).progress().done_count(), kSampleCount);
    EXPECT_EQ(WaitFor(address, Submit(address), kSampleCount).progress().done_count(), kSampleCount);
    kill(pid, SIGHUP);
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    if (!reader_leaves) close(ends[0]);
  }
}

// A job on a model loaded by a call continues automatically after the daemon was killed.
TEST_F(DaemonTest, ModelsOfCallsSurviveADeath) {
  const auto load = [](const std::string& address) {
    const auto stub = v1::Inference::NewStub(ConnectedChannel(address));
    v1::LoadModelRequest request;
    request.set_model_id("called");
    request.set_directory("models/focal-constant");
    v1::Model model;
    grpc::ClientContext context;
    return stub->LoadModel(&context, request, &model);
  };
  {
    DaemonProcess daemon(Arguments());
    const std::string address = daemon.Address();
    ASSERT_NE(address, "") << daemon.Errors();
    ASSERT_TRUE(load(address).ok());
    const std::string name = Submit(address, "models/called");
    ASSERT_LT(WaitFor(address, name, 3).progress().done_count(), kSampleCount);
    daemon.Signal(SIGKILL);
    EXPECT_EQ(daemon.Wait(20), 128 + SIGKILL);
  }
  DaemonProcess second(Arguments());
  const std::string address = second.Address();
  ASSERT_NE(address, "") << second.Errors();
  const v1::Job job = WaitFor(address, "jobs/1", kSampleCount);
  EXPECT_EQ(job.progress().done_count(), kSampleCount) << job.error_message();
  EXPECT_EQ(job.error_message(), "");
}

TEST_F(DaemonTest, HangUpStopsInOrder) {
  DaemonProcess daemon(Arguments());
  ASSERT_NE(daemon.Address(), "") << daemon.Errors();
  daemon.Signal(SIGHUP);
  EXPECT_EQ(daemon.Wait(60), 0);
}

// The hash of 256 GiB takes minutes, and then the load fails with exit code 1.
TEST_F(DaemonTest, TermEndsAStartAtOnce) {
  const std::string model = directory_.File("m");
  std::filesystem::copy("models/baseline", model);
  const int64_t bytes = int64_t{256} << 30;
  std::string header =
      absl::StrCat(R"({"x":{"dtype":"F32","shape":[)", bytes / 4, R"(],"data_offsets":[0,)", bytes, "]}}");
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file(8, '\0');
  file[0] = header.size();
  WriteFile(model + "/model.safetensors", file + header);
  ASSERT_EQ(truncate((model + "/model.safetensors").c_str(), static_cast<off_t>(8 + header.size()) + bytes), 0);
  DaemonProcess daemon({absl::StrCat("--db=", directory_.File("r.db")), absl::StrCat("--model=m=", model)});
  ASSERT_TRUE(daemon.WaitForFile(directory_.File("r.db"), 60)) << daemon.Errors();
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(60), 0) << daemon.Errors();
}

TEST_F(DaemonTest, HelpAndVersion) {
  const ProcessResult help = RunProcess(kDaemon, {"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* flag :
       {"--db", "--model", "--listen", "--device", "--dtype", "--threads", "--cpu-isa", "--cuda-graphs",
        "--prefill-chunk-tokens", "--prefix-cache", "--kv-cache-bytes", "--model-root", "--data-root", "--reflection",
        "--batch-size-max", "--in-flight", "--shutdown-grace"}) {
    EXPECT_THAT(help.out, HasSubstr(flag));
  }
  const ProcessResult version = RunProcess(kDaemon, {"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, HasSubstr("varifocald 0."));
}

TEST_F(DaemonTest, RefusesInOneSentence) {
  DaemonProcess other(Arguments());
  const std::string address = other.Address();
  ASSERT_NE(address, "");
  const std::string db = absl::StrCat("--db=", directory_.File("new.db"));
  const std::string model = "--model=m=models/baseline";
  WriteFile(directory_.File("text.db"), "this is no database, it only looks like a file");
  struct Case {
    std::vector<std::string> arguments;
    int exit_code;
    const char* words;
  };
  const std::string pid = absl::StrCat(other.pid());
  const Case cases[] = {
      {{}, 2, "--db"},
      {{db, "--modle=m=x"}, 2, "--model"},
      {{db, "extra"}, 2, "extra"},
      {{db, "--model=models/baseline"}, 2, "NAME=DIR"},
      {{db, "--model=a b=models/baseline"}, 2, "a b"},
      {{db, model, model}, 2, "twice"},
      {{db, "--threads=-1"}, 2, "-1"},
      {{db, "--threads=many"}, 2, "many"},
      {{db, "--prefix-cache=maybe"}, 2, "maybe"},
      {{db, "--dtype=f64"}, 2, "f64"},
      {{db, "--in-flight=0"}, 2, "0"},
      {{db, "--prefill-chunk-tokens=0"}, 2, "0"},
      {{db, "--listen=here"}, 2, "here"},
      {{db, "--listen=0.0.0.0:0"}, 2, "loopback"},
      {{db, absl::StrCat("--listen=", address)}, 1, address.c_str()},
      {{db, "--listen=127.0.0.1:0", absl::StrCat("--model=m=", directory_.File("no/model"))}, 1, "/no/model"},
      {{db, "--listen=127.0.0.1:0", "--device=tpu", model}, 1, "tpu"},
      {{db, "--listen=127.0.0.1:0", "--cpu-isa=mmx", model}, 1, "mmx"},
      {{absl::StrCat("--db=", directory_.File("r.db")), "--listen=127.0.0.1:0"}, 1, pid.c_str()},
      {{absl::StrCat("--db=", directory_.File("no/such/r.db")), "--listen=127.0.0.1:0"}, 1, "no/such"},
      {{absl::StrCat("--db=", directory_.File("text.db")), "--listen=127.0.0.1:0"}, 1, "text.db"},
  };
  for (const Case& c : cases) {
    const ProcessResult result = RunProcess(kDaemon, c.arguments);
    const std::string what = c.arguments.empty() ? "no flags" : c.arguments.back();
    EXPECT_EQ(result.exit_code, c.exit_code) << what << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(c.words)) << what;
    // Log lines may precede it, but the last line is the one error sentence.
    const std::vector<std::string> lines = absl::StrSplit(absl::StripSuffix(result.err, "\n"), '\n');
    EXPECT_EQ(lines.back().rfind("varifocald: ", 0), 0u) << what << ": " << result.err;
    EXPECT_EQ(result.out, "") << what;
  }
}

// Starts that fail for want of threads or memory, at any value: a sentence and exit code 1; or it serves and stops in order. Never a
// signal, and never a process that stays. Threads are limited for a user other than root alone.
TEST_F(DaemonTest, StartsWithTooFewThreadsOrTooLittleMemory) {
  const std::string daemon = directory_.File("varifocald");
  std::filesystem::copy_file(ProgramPath(kDaemon), daemon);
  std::filesystem::copy("models/baseline", directory_.File("model"), std::filesystem::copy_options::recursive);
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::all);
  std::vector<std::string> limits = {"-v 200000", "-v 400000", "-v 600000", "-v 900000"};
  std::string as_other = "exec ";
  if (geteuid() == 0 && std::filesystem::exists("/usr/bin/setpriv")) {
    as_other = "exec /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups ";
    for (const int threads : {10, 13, 18, 22, 26, 30}) limits.push_back(absl::StrCat("-u ", threads));
  }
  for (const std::string& limit : limits) {
    const std::string name = absl::StrReplaceAll(limit, {{" ", "_"}});
    const std::string port = directory_.File(absl::StrCat("port", name));
    const std::string command =
        absl::StrCat("ulimit ", limit, "; ", as_other, daemon, " --db=", directory_.File(absl::StrCat(name, ".db")),
                     " --model=a=", directory_.File("model"),
                     " --threads=1 --kv-cache-bytes=64000000 --port-file=", port, " --listen=127.0.0.1:0");
    BackgroundProcess process("/bin/sh", {"-c", command});
    if (process.WaitForFile(port, 60)) process.Signal(SIGTERM);
    const int code = process.Wait(40);
    const std::string errors = process.Errors();
    EXPECT_TRUE(code == 0 || code == 1) << limit << ": " << code << "\n" << errors;
    if (code == 1) {
      EXPECT_THAT(errors, testing::AnyOf(HasSubstr("varifocald: "), HasSubstr("memory"))) << limit;
    }
  }
}

// Without standard error its number would be that of the lock file.
TEST_F(DaemonTest, ClosedStandardStreamsAreNoFiles) {
  const std::string port = directory_.File("port");
  const std::string command = absl::StrCat("exec ", ProgramPath(kDaemon), " ", absl::StrJoin(Arguments(), " "),
                                           " --listen=127.0.0.1:0 --port-file=", port, " <&- >&- 2>&-");
  BackgroundProcess process("/bin/sh", {"-c", command});
  ASSERT_TRUE(process.WaitForFile(port, 60));
  EXPECT_EQ(ReadFile(directory_.File("r.db.lock")), absl::StrCat(process.pid(), "\n"));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(60), 0);
}

TEST_F(DaemonTest, NamesOfDevicesAreCheckedWithoutAModelToo) {
  for (const char* flag : {"--cpu-isa=zz", "--device=zz"}) {
    const ProcessResult result =
        RunProcess(kDaemon, {absl::StrCat("--db=", directory_.File("r.db")), "--listen=127.0.0.1:0", flag});
    EXPECT_EQ(result.exit_code, 1) << flag;
    EXPECT_THAT(result.err, HasSubstr("zz")) << flag;
  }
  // A list that no machine could have is invalid usage (device_list_test.cc has the table).
  const ProcessResult result = RunProcess(
      kDaemon, {absl::StrCat("--db=", directory_.File("r.db")), "--listen=127.0.0.1:0", "--device=cuda:1,1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, Message("--device", "cuda:1,1"));
}

}  // namespace
}  // namespace varifocal

#include "tests/support/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/check.h"

namespace varifocal {
inline namespace testing_support {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

pid_t Spawn(const std::string& program, const std::vector<std::string>& arguments,
            const std::vector<std::string>& environment, const std::string& in, const std::string& out,
            const std::string& err) {
  const std::string path = ProgramPath(program);
  std::vector<char*> argv = {const_cast<char*>(path.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  VF_CHECK(pid >= 0);
  if (pid > 0) return pid;
  dup2(open(in.c_str(), O_RDONLY), 0);
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
  for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
  execv(path.c_str(), argv.data());
  _exit(127);
}

int ExitCode(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

std::vector<std::string> WithFreePort(std::vector<std::string> arguments) {
  arguments.push_back("--listen=127.0.0.1:0");
  return arguments;
}

}  // namespace

std::string ProgramPath(const std::string& program) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / program).string();
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "varifocal_test_XXXXXX").string();
  VF_CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::error_code ignored;  // the stream's is of the file
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << bytes;
  VF_CHECK(stream.good());
}

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

ProcessResult RunProcess(const std::string& program, const std::vector<std::string>& arguments,
                         const ProcessOptions& options) {
  TemporaryDirectory directory;
  WriteFile(directory.File("in"), options.input);
  const auto start = Clock::now();
  const pid_t pid = Spawn(program, arguments, options.environment, directory.File("in"), directory.File("out"),
                          directory.File("err"));
  ProcessResult result;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (SecondsSince(start) > options.seconds_max) {
      kill(pid, SIGKILL);
      waitpid(pid, &status, 0);
      status = -1;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  result.exit_code = status == -1 ? -1 : ExitCode(status);
  result.out = ReadFile(directory.File("out"));
  result.err = ReadFile(directory.File("err"));
  result.seconds = SecondsSince(start);
  return result;
}

BackgroundProcess::BackgroundProcess(const std::string& program, const std::vector<std::string>& arguments) {
  pid_ = Spawn(program, arguments, {}, "/dev/null", directory_.File("out"), directory_.File("err"));
}

BackgroundProcess::~BackgroundProcess() {
  if (!IsRunning()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool BackgroundProcess::IsRunning() {
  if (reaped_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) return true;
  reaped_ = true;
  exit_code_ = ExitCode(status);
  return false;
}

void BackgroundProcess::Signal(int signal) {
  if (IsRunning()) kill(pid_, signal);
}

int BackgroundProcess::Wait(int seconds_max) {
  const auto start = Clock::now();
  while (IsRunning()) {
    if (SecondsSince(start) > seconds_max) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return exit_code_;
}

bool BackgroundProcess::WaitForFile(const std::string& path, int seconds_max) {
  const auto start = Clock::now();
  while (true) {
    std::error_code ignored;
    const auto size = std::filesystem::file_size(path, ignored);
    if (!ignored && size > 0) return true;
    if (!IsRunning() || SecondsSince(start) > seconds_max) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

DaemonProcess::DaemonProcess(std::vector<std::string> arguments)
    : BackgroundProcess("varifocald", WithFreePort(std::move(arguments))) {}

std::string DaemonProcess::Address() {
  constexpr char kServing[] = " serving address=";
  const auto start = Clock::now();
  while (IsRunning() && SecondsSince(start) < 60) {
    const std::string log = Errors();
    const size_t at = log.find(kServing), begin = at + sizeof kServing - 1;
    const size_t end = at == log.npos ? at : log.find_first_of(" \n", begin);
    if (end != log.npos) return log.substr(begin, end - begin);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return "";
}

}  // namespace testing_support
}  // namespace varifocal

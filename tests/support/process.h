// Child processes for tests: run one to its end, or keep one in the background and signal it.
//
// Programs are named by their file name and looked up beside the running test (build/<preset>/bin).
//
// Threads: one thread per object.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace varifocal::testing_support {

struct ProcessResult {
  int exit_code = -1;  // 128 + N when signal N ended it; -1 when it had to be killed at the time limit
  std::string out;
  std::string err;
  double seconds = 0;
};

struct ProcessOptions {
  std::string input;                     // given on standard input
  std::vector<std::string> environment;  // "NAME=value", added to this process's own
  int seconds_max = 120;
};

// Where the build put its programs.
std::string ProgramPath(const std::string& program);

ProcessResult RunProcess(const std::string& program, const std::vector<std::string>& arguments,
                         const ProcessOptions& options = {});

// A fresh directory, removed with all that is in it when the object goes.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void WriteFile(const std::string& path, const std::string& bytes);
std::string ReadFile(const std::string& path);  // empty when it cannot be read

// A process in the background; killed when the object goes. Output is kept in files.
class BackgroundProcess {
 public:
  BackgroundProcess(const std::string& program, const std::vector<std::string>& arguments);
  ~BackgroundProcess();
  BackgroundProcess(const BackgroundProcess&) = delete;

  bool IsRunning();
  void Signal(int signal);
  // Exit code as in ProcessResult, or -1 when it still runs after so many seconds.
  int Wait(int seconds_max);
  // Until `path` exists and is not empty; false when the process ends first or time is up.
  bool WaitForFile(const std::string& path, int seconds_max);
  std::string Output() const { return ReadFile(directory_.File("out")); }
  std::string Errors() const { return ReadFile(directory_.File("err")); }
  pid_t pid() const { return pid_; }

 private:
  TemporaryDirectory directory_;
  pid_t pid_ = -1;
  int exit_code_ = -1;
  bool reaped_ = false;
};

// varifocald on a port that was free; the test's CMake target must depend on it.
class DaemonProcess : public BackgroundProcess {
 public:
  explicit DaemonProcess(std::vector<std::string> arguments);  // but --listen, which is added
  // "127.0.0.1:PORT" once it serves, which is waited for; empty when it ends first or a minute is over (see Errors()).
  std::string Address();
};

}  // namespace varifocal::testing_support

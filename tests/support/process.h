// Child processes for tests: run one to completion, or keep one in the background and signal it.
//
// Programs are named by their file name and looked up in the directory of the running test (build/<preset>/bin).
//
// Threads: one thread per object.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace varifocal {
inline namespace testing_support {

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

// The directory of the built programs.
std::string ProgramPath(const std::string& program);

ProcessResult RunProcess(const std::string& program, const std::vector<std::string>& arguments,
                         const ProcessOptions& options = {});

// A new directory, removed recursively by the destructor.
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

void WriteFile(const std::string& path, const std::string& bytes);  // also its directory
std::string ReadFile(const std::string& path);                      // empty when it cannot be read

// A process in the background; killed by the destructor. Output is written to files.
class BackgroundProcess {
 public:
  BackgroundProcess(const std::string& program, const std::vector<std::string>& arguments);
  ~BackgroundProcess();
  BackgroundProcess(const BackgroundProcess&) = delete;

  bool IsRunning();
  void Signal(int signal);
  // Exit code as in ProcessResult, or -1 when it still runs at the timeout.
  int Wait(int seconds_max);
  // Waits until `path` exists and is not empty; false when the process ends first or on timeout.
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

// varifocald on a free port; the test's CMake target must depend on it.
class DaemonProcess : public BackgroundProcess {
 public:
  explicit DaemonProcess(std::vector<std::string> arguments);  // without --listen, which is added
  // Waits until it serves; "127.0.0.1:PORT", or empty when it ends first or after a minute (see Errors()).
  std::string Address();
};

}  // namespace testing_support
}  // namespace varifocal

// A child process that times a peer on request: one line to its standard input, one line back.
//
// Threads: one at a time.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace varifocal {

struct PeerTiming {
  double wall_seconds = 0;
  double cpu_seconds = 0;
  double log_probability = 0;  // of token 0 after a prefill
  int argmax = -1;
};

class BenchPeer {
 public:
  explicit BenchPeer(const std::vector<std::string>& command) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to[0], STDIN_FILENO);
      dup2(from[1], STDOUT_FILENO);
      for (const int fd : {to[0], to[1], from[0], from[1]}) close(fd);
      std::vector<char*> arguments;
      for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
      arguments.push_back(nullptr);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    requests_ = fdopen(to[1], "w");
    answers_ = fdopen(from[0], "r");
  }
  ~BenchPeer() {
    if (requests_ != nullptr) fclose(requests_);
    if (answers_ != nullptr) fclose(answers_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  BenchPeer(const BenchPeer&) = delete;
  BenchPeer& operator=(const BenchPeer&) = delete;

  // Nullopt when unsupported by the peer, which prints the reason on standard error.
  std::optional<PeerTiming> Time(const std::string& request) {
    if (requests_ == nullptr || answers_ == nullptr) return std::nullopt;
    std::fprintf(requests_, "%s\n", request.c_str());
    std::fflush(requests_);
    char line[4096];
    if (std::fgets(line, sizeof line, answers_) == nullptr) {
      std::fprintf(stderr, "the peer ended during the request \"%s\"\n", request.c_str());
      fclose(answers_);
      answers_ = nullptr;
      return std::nullopt;
    }
    PeerTiming timing;
    std::istringstream in(line);
    if (!(in >> timing.wall_seconds >> timing.cpu_seconds)) {
      std::fprintf(stderr, "the peer has no result for \"%s\": %s", request.c_str(), line);
      return std::nullopt;
    }
    in >> timing.log_probability >> timing.argmax;
    return timing;
  }

 private:
  pid_t pid_ = -1;
  FILE* requests_ = nullptr;
  FILE* answers_ = nullptr;
};

}  // namespace varifocal
